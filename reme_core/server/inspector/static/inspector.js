// What pages cannot do without a script: moving by keyboard, and sliders for the two days that are compared.
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
  const first = Date.parse(form.dataset.first);
  const last = Math.max(Date.parse(form.dataset.last), ...[...form.querySelectorAll("[type=date]")].map((d) => d.valueAsNumber || 0));
  for (const label of form.querySelectorAll("label")) {
    const date = label.querySelector("input");
    const slider = Object.assign(document.createElement("input"), { type: "range", min: 0, max: Math.round((last - first) / DAY) });
    slider.value = Math.round((date.valueAsNumber - first) / DAY);
    slider.setAttribute("aria-label", label.innerText);
    slider.addEventListener("input", () => { date.valueAsNumber = first + slider.value * DAY; });
    slider.addEventListener("change", () => form.requestSubmit());
    label.after(slider);
  }
}
