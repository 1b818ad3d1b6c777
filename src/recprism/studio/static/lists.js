// Lists of ten, with the state of each place.

import { el, fill } from "./dom.js";

const MARKS = { new: "new", gone: "gone", moved: "moved", stayed: "" };

// known: subtopics of the other list; those that it lacks are bold
export function showList(node, entries, known = null) {
  fill(node, ...entries.map((entry) => el("li", { class: `entry ${entry.state}` },
    el("span", { class: "rank" }, String(entry.rank)),
    el("span", { class: "title" }, entry.year ? `${entry.title} (${entry.year})` : entry.title),
    el("span", { class: "mark" }, MARKS[entry.state]),
    el("span", { class: "topics" }, ...topics(entry.subtopics, known)),
    entry.reason ? el("small", { class: "topics" }, entry.reason) : "")));
}

function topics(names, known) {
  return names.flatMap((name, at) => [at ? ", " : "", known && !known.has(name) ? el("b", { title: "not covered before" }, name) : name]);
}

export const covered = (entries) => new Set(entries.flatMap((entry) => entry.subtopics));
