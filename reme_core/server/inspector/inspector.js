// Shows what /v1 answers. Texts go into the page as text nodes only: what is remembered is never markup.
"use strict";

const PAGE = 25;
const SVG = "http://www.w3.org/2000/svg";
const at = (id) => document.getElementById(id);
let offset = 0;

function make(tag, props = {}, ...children) {
  const element = Object.assign(document.createElement(tag), props);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function drawn(tag, values, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(values)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function table(columns, rows, nothing) {
  if (!rows.length) return make("p", { className: "dim" }, nothing);
  const head = make("tr", {}, ...columns.map((name) => make("th", {}, name)));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
}

function row(cells, open) {
  const line = make("tr", {}, ...cells.map((cell) => (cell instanceof Node ? cell : make("td", {}, cell ?? ""))));
  if (open) {
    Object.assign(line, { className: "open", tabIndex: 0, onclick: open });
    line.onkeydown = (event) => { if (event.key === "Enter") open(); };
  }
  return line;
}

const text = (...parts) => make("td", { className: "text" }, parts.filter(Boolean).join("\n"));
const day = (moment) => (moment ? moment.slice(0, 10) : "");
const minute = (moment) => (moment ? moment.slice(0, 16).replace("T", " ") : "");

function bar(value, most = 1) {
  const filled = make("i");
  filled.style.width = `${100 * Math.min(Math.max(value / (most || 1), 0), 1)}%`;
  return make("td", {}, make("span", { className: "bar" }, filled), value.toFixed(2));
}

async function ask(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (at("key").value) headers.Authorization = `Bearer ${at("key").value}`;
  const response = await fetch(path, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message ?? response.statusText);
  return answer;
}

const workspace = () => `/v1/workspaces/${encodeURIComponent(at("workspace").value)}`;

async function recall() {
  const conversation = at("kind").value === "conversation";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const asked = { query: at("query").value, limit: 10, timezone: zone };
  if (conversation) asked.kind = "conversation";
  if (at("as-of").value) asked.as_of = new Date(at("as-of").value).toISOString();
  const found = await ask(`${workspace()}/recall`, asked);
  const most = Math.max(...found.hits.map((hit) => hit.parts.final), 0);
  const rows = found.hits.map(({ rank, memory, parts, relevance }) => row(
    [String(rank), text(memory.when_to_use, memory.content), day(memory.observed_at ?? memory.created_at),
      bar(parts.vector), bar(parts.lexical), conversation ? `+ ${parts.time.toFixed(2)}` : `× ${parts.time} × ${parts.type}`,
      bar(parts.final, most), relevance.toFixed(2)],
    conversation ? null : () => attempt(() => show(memory.memory_id)),
  ));
  const columns = ["#", "remembered", "when", "meaning", "words", conversation ? "time" : "time, type", "score", "chance"];
  at("hits").replaceChildren(table(columns, rows, "Nothing is remembered about it."));
}

async function list() {
  const query = new URLSearchParams({ status: at("status").value, limit: PAGE, offset });
  const { memories } = await ask(`${workspace()}/memories?${query}`);
  const rows = memories.map((memory) => row(
    [memory.kind, text(memory.when_to_use, memory.content), memory.subject, day(memory.observed_at),
      `${day(memory.valid_from)} – ${day(memory.valid_until)}`, memory.author],
    () => attempt(() => show(memory.memory_id)),
  ));
  const columns = ["kind", "content", "about", "said", "holds", "by"];
  at("memories").replaceChildren(table(columns, rows, "There are none."));
  at("newer").disabled = offset === 0;
  at("older").disabled = memories.length < PAGE;
}

async function show(memoryId) {
  const path = `${workspace()}/memories/${encodeURIComponent(memoryId)}`;
  const [memory, history] = await Promise.all([ask(`${path}?deleted=true`), ask(`${path}/history`)]);
  const fields = Object.entries(memory)
    .filter(([name, value]) => name !== "sources" && value !== null && value !== "" && String(value) !== "")
    .map(([name, value]) => row([name, text(typeof value === "object" ? JSON.stringify(value) : String(value))]));
  const sources = memory.sources.map((source) => row([`${source.kind} ${source.id}`, text(source.quote)]));
  const changes = history.map((entry) => row(
    [minute(entry.changed_at), entry.operation, entry.changed_by, entry.reason, text(...changed(entry))],
  ));
  at("memory").replaceChildren(
    table(["field", "value"], fields, ""),
    make("h3", {}, "Evidence"), table(["source", "words"], sources, "It was told outright."),
    make("h3", {}, "History"), table(["when", "what", "by", "why", "changed"], changes, "There is none."),
  );
  at("one").hidden = false;
  at("one").scrollIntoView({ behavior: "smooth" });
}

function changed({ operation, before, after }) {
  if (operation === "insert") return [after.content];
  const names = Object.keys(after ?? {}).filter((n) => JSON.stringify(before?.[n]) !== JSON.stringify(after[n]));
  return names.map((n) => `${n}: ${JSON.stringify(before?.[n])} → ${JSON.stringify(after[n])}`);
}

async function curves() {
  const tasks = new Map();
  for (const point of (await ask(`${workspace()}/curve`)).points) {
    if (!tasks.has(point.task_id)) tasks.set(point.task_id, []);
    tasks.get(point.task_id).push(point);
  }
  const figures = [...tasks].map(([task, points]) => {
    const place = (n) => (points.length > 1 ? (200 * n) / (points.length - 1) : 100);
    const line = points.map((point, n) => `${place(n)},${100 - 100 * point.mean_of_last_10}`).join(" ");
    const dots = points.map((point, n) => drawn("circle", { cx: place(n), cy: 100 - 100 * point.score, r: 1.5 }));
    const last = points[points.length - 1];
    const label = `${task}: ${points.length} attempts, mean of the last ten ${last.mean_of_last_10.toFixed(2)}`;
    const plot = drawn("svg", { viewBox: "-4 -4 208 108", role: "img", "aria-label": label },
      ...dots, drawn("polyline", { points: line }));
    return make("figure", {}, plot, make("figcaption", {}, label));
  });
  at("curves").replaceChildren(...(figures.length ? figures : [make("p", { className: "dim" }, "No episodes yet.")]));
}

async function jobs() {
  const found = (await ask(`${workspace()}/jobs?limit=20`)).jobs;
  const rows = found.map((job) => row(
    [String(job.id), job.task, job.status, job.session_id, String(job.attempts), minute(job.scheduled_at), job.error],
  ));
  const columns = ["id", "task", "status", "session", "tries", "due", "last error"];
  at("jobs").replaceChildren(table(columns, rows, "Nothing waits, and nothing failed."));
}

async function attempt(work) {
  try {
    await work();
    at("trouble").hidden = true;
  } catch (error) {
    at("trouble").textContent = error.message;
    at("trouble").hidden = false;
  }
}

async function open() {
  for (const id of ["hits", "memory"]) at(id).replaceChildren();
  at("one").hidden = true;
  offset = 0;
  if (at("workspace").value) await Promise.all([list(), curves(), jobs()]);
}

async function begin() {
  sessionStorage.setItem("reme-key", at("key").value);
  const { workspaces } = await ask("/v1/workspaces");
  const chosen = at("workspace").value;
  at("workspace").replaceChildren(...workspaces.map((name) => make("option", { selected: name === chosen }, name)));
  await open();
}

at("key").value = sessionStorage.getItem("reme-key") ?? "";
at("key").onchange = at("reload").onclick = () => attempt(begin);
at("workspace").onchange = () => attempt(open);
at("status").onchange = () => { offset = 0; attempt(list); };
at("newer").onclick = () => { offset = Math.max(0, offset - PAGE); attempt(list); };
at("older").onclick = () => { offset += PAGE; attempt(list); };
at("ask").onsubmit = (event) => { event.preventDefault(); attempt(recall); };
attempt(begin);
