// Lists of ten, with the state of each place.

import { button, el, fill, titled } from "./dom.js";

const MARKS = { new: "new", gone: "gone", moved: "moved", stayed: "" };

// known: categories of the other list; those that it lacks are bold. open(entry, node): a place was chosen.
export function showList(node, entries, { known = null, open = null, reasons = new Map() } = {}) {
  fill(node, ...entries.map((entry) => place(entry, known, open, reasons.get(String(entry.id)) ?? entry.reason)));
}

function place(entry, known, open, reason) {
  const title = open ? button(titled(entry), () => open(entry, node, node.querySelector(".title")), { class: "title", "aria-expanded": "false" }) : el("span", { class: "title" }, titled(entry));
  const node = el("li", { class: `entry ${entry.state}`, "data-id": String(entry.id) },
    el("span", { class: "rank" }, String(entry.rank)), title,
    el("span", { class: "mark" }, MARKS[entry.state]),
    el("span", { class: "categories" }, ...categories(entry.categories, known)),
    reason ? el("span", { class: "reason" }, reason) : null);
  return node;
}

// Reasons come later than the lists.
export function addReasons(node, reasons) {
  for (const entry of node.querySelectorAll(".entry.new")) {
    const said = reasons.get(entry.dataset.id);
    if (said && !entry.querySelector(".reason")) entry.querySelector(".categories").after(el("span", { class: "reason" }, said));
  }
}

function categories(names, known) {
  return names.flatMap((name, at) => [at ? ", " : "", known && !known.has(name) ? el("b", { title: "not covered before" }, name) : name]);
}

export const covered = (entries) => new Set(entries.flatMap((entry) => entry.categories));
