// What pages cannot do without a script: moving by keyboard, and the slider with the two days that are compared.
"use strict";

const links = () => [...document.querySelectorAll("li.row > a, tr.row th a, a.row")];

function move(step) {
  const all = links();
  const next = all[Math.min(Math.max(all.indexOf(document.activeElement) + step, 0), all.length - 1)];
  next?.focus();
}

const keys = {
  "/": () => document.querySelector("input[type=search]")?.focus(),
  j: () => move(1),
  k: () => move(-1),
  u: () => (document.querySelector("header .workspace") ?? document.querySelector("header .brand")).click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (!keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

const DAY = 86_400_000;
for (const form of document.querySelectorAll("form.slider")) {
  const dates = [...form.querySelectorAll("[type=date]")];
  const days = [form.dataset.first, form.dataset.last, ...dates.map((date) => date.value)].map(Date.parse).filter(Number.isFinite);
  const [first, last] = [Math.min(...days), Math.max(...days)]; // a day beyond may have been typed
  const track = Object.assign(document.createElement("div"), { className: "track" });
  const handles = dates.map((date) => {
    const handle = Object.assign(document.createElement("input"), { type: "range", min: 0, max: Math.round((last - first) / DAY) });
    handle.value = Math.round((date.valueAsNumber - first) / DAY);
    handle.setAttribute("aria-label", date.parentElement.innerText);
    return handle;
  });
  const show = () => handles.forEach((handle, end) => track.style.setProperty(["--from", "--to"][end], `${(100 * handle.value) / handle.max}%`));
  handles.forEach((handle, end) => {
    handle.addEventListener("input", () => {
      const other = handles[1 - end]; // one handle pushes the other along
      if (Number(handles[0].value) > Number(handles[1].value)) other.value = handle.value;
      handles.forEach((one, number) => { dates[number].valueAsNumber = first + one.value * DAY; });
      show();
    });
    handle.addEventListener("change", () => form.requestSubmit());
  });
  track.append(...handles);
  show();
  form.querySelector("button").before(track);
}
