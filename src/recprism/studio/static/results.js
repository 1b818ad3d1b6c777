// All results in one table, which of them no other beats, and any two of them side by side.

import { byId, el, figure, fill, inWords, percent, show, showCommand, spoken, table } from "./dom.js";
import { Refused, get, ofRun } from "./api.js";
import { drawResults } from "./charts.js";
import { covered, showList } from "./lists.js";

const COST = "ndcg@10", GAIN = "subtopic_coverage@10";
const SOON = 700; // milliseconds until the table is requested again while a run is being opened
let state = null, rows = [], order = ["name", 1], again = null;

const COLUMNS = {
  name: ["result", (row) => row.name, (row) => row.name],
  data: ["data", (row) => row.data ?? "", (row) => row.data ?? ""],
  model: ["model", (row) => row.model ?? "", (row) => row.model ?? ""],
  goal: ["goal", (row) => row.goal ?? "", (row) => (row.goal ? inWords(row.goal) : "none yet")],
  budget: ["budget", (row) => row.budget ?? -1, (row) => percent(row.budget, 1)],
  cost: ["accuracy", (row) => row.changes[COST] ?? -9, (row) => percent(row.changes[COST], 1, true)],
  gain: ["categories", (row) => row.changes[GAIN] ?? -9, (row) => percent(row.changes[GAIN], 1, true)],
  test: ["test set", (row) => Number(row.test), (row) => row.test || "–"],
  date: ["date", (row) => row.date ?? "", (row) => (row.date ?? "").slice(0, 10)],
};

export function begin(shared) {
  state = shared;
  for (const id of ["first", "second"]) byId(id).addEventListener("change", state.safely(compare));
}

export async function open() {
  showCommand("");
  byId("which").textContent = "Judged lists (history before the held-out part) of each result. Figures come from them; users are served live lists.";
  rows = await get("/results", {}, "results");
  await drawAll();
  refreshSoon();
}

// A run that is opened meanwhile joins the table and the comparison.
function refreshSoon() {
  clearTimeout(again);
  if (!rows.some((row) => row.phase === "preparing")) return;
  again = setTimeout(state.safely(async () => {
    if (state.view !== "results") return;
    const before = JSON.stringify(rows);
    rows = await get("/results", {}, "results");
    if (JSON.stringify(rows) !== before) await drawAll();
    refreshSoon();
  }), SOON);
}

async function drawAll() {
  draw();
  const points = rows.filter((row) => Number.isFinite(row.changes[COST]) && Number.isFinite(row.changes[GAIN])).map((row) => ({ name: row.name, test: row.test, cost: row.changes[COST], gain: row.changes[GAIN] }));
  for (const one of points) one.best = !points.some((other) => other.test === one.test && other.cost >= one.cost && other.gain >= one.gain && (other.cost > one.cost || other.gain > one.gain));
  show(byId("pareto-field"), points.length > 0);
  if (points.length) await drawResults(byId("pareto"), points, inWords(GAIN));
  const names = rows.filter((row) => row.phase === "ready").map((row) => row.name);
  for (const [id, at] of [["first", 0], ["second", 1]]) {
    const was = byId(id).value;
    fill(byId(id), ...names.map((name) => el("option", { value: name }, name)));
    byId(id).value = names.includes(was) ? was : at ? names.find((name) => name !== state.run) ?? null : state.run;
  }
  show(byId("compare-section"), names.length > 1);
  if (names.length > 1) await compare();
}

function draw() {
  const [by, sign] = order, value = COLUMNS[by][1];
  const sorted = [...rows].sort((a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
  const open = (row) => el("button", { type: "button", class: "link", onclick: () => state.openRun(row.name) }, row.name);
  table(byId("results"), Object.values(COLUMNS).map(([title]) => title), sorted.map((row) => Object.entries(COLUMNS).map(([name, [, , words]]) => (name === "name" ? open(row) : words(row)))));
  byId("results").querySelectorAll("th").forEach((head, at) => {
    const name = Object.keys(COLUMNS)[at];
    head.setAttribute("aria-sort", name !== by ? "none" : sign > 0 ? "ascending" : "descending");
    fill(head, el("button", { type: "button", class: "sort", onclick: () => { order = [name, name === by ? -sign : 1]; draw(); byId("results").querySelectorAll("th")[at].querySelector("button").focus(); } }, `${COLUMNS[name][0]}${name === by ? (sign > 0 ? " ↑" : " ↓") : ""}`));
  });
}

// Request everything before showing anything, so that figures and lists belong to one pair and one user.
async function compare() {
  const names = [byId("first").value, byId("second").value];
  try {
    const found = await get("/compare", { first: names[0], second: names[1] }, "compare");
    const whose = found.example_user === null ? null : await userInBoth(names, found.example_user);
    fill(byId("comparable"), ...found.sentences.map((words) => el("li", {}, words)));
    const known = [...new Set(found.figures.flatMap((one) => Object.keys(one?.after ?? {})))], which = found.same_test ? "after" : "changes";
    const words = (one, metric) => (found.same_test ? figure(one?.after[metric]) : percent(one?.changes[metric], 1, true));
    table(byId("compared"), [found.same_test ? "served lists, test part" : "change against its own model", ...names], known.map((metric) => [inWords(metric), ...found.figures.map((one) => (one && metric in one[which] ? words(one, metric) : "–"))]));
    show(byId("both-lists"), whose !== null);
    if (whose !== null) showBoth(names, whose);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    for (const id of ["comparable", "compared", "mine", "theirs"]) fill(byId(id));
    fill(byId("comparable"), el("li", {}, ...spoken(error.message)));
  }
}

// The user of the page if both have that user, else one whom both have.
async function userInBoth(names, example) {
  const of = (user) => Promise.all(names.map((name, at) => get(ofRun(name, "/user"), { user }, `user on side ${at}`)));
  try {
    return await of(state.user ?? example);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return of(example);
  }
}

function showBoth(names, lists) {
  const categories = lists.map((one) => covered(one.after));
  ["mine", "theirs"].forEach((side, at) => {
    byId(`${side}-title`).textContent = `${names[at]} for user ${lists[at].user}`;
    showList(byId(side), lists[at].after.map((entry) => ({ ...entry, state: "stayed" })), { known: categories[1 - at] });
  });
}
