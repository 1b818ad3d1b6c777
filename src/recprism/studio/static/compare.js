// Two runs side by side: what they serve, in figures and for the same user.

import { byId, el, figure, fill, inWords, show, spoken, table } from "./dom.js";
import { Overtaken, Refused, get, ofRun } from "./api.js";
import { covered, showList } from "./lists.js";

let mine = null, user = null, latest = null;

// The page turns to another run: clear what belongs to the previous one.
export function leave() {
  mine = user = latest = null;
  show(byId("compare-section"), false);
  clear();
}

export function offerRuns(run, names) {
  mine = run;
  const others = names.filter((name) => name !== run.name);
  show(byId("compare-section"), others.length > 0);
  fill(byId("other"), ...others.map((name) => el("option", { value: name }, name)));
  return compare();
}

export function forUser(id) {
  user = id;
  return compare();
}

const served = (run) => run.served?.after ?? null;

// Request everything before showing anything, so that figures and lists belong to one pair of runs and one user.
export async function compare() {
  const ours = mine, whose = user, name = byId("other").value, asked = Symbol(name);
  if (!ours || whose === null || !name) return;
  latest = asked;
  try {
    const theirs = await get(ofRun(name), {}, "other run");
    if (theirs.phase !== "ready") throw new Refused(`${name}: ${theirs.message}`);
    const lists = await Promise.all([ours.name, name].map((run, at) => get(ofRun(run, "/served"), { user: whose }, `served on side ${at}`)));
    if (latest !== asked) return; // another user was chosen while these were under way
    showFigures([ours, theirs]);
    showLists([ours, theirs], whose, lists.map((list) => list.after));
  } catch (error) {
    if (error instanceof Refused && latest === asked) clear(error.message);
    else if (!(error instanceof Refused || error instanceof Overtaken)) throw error;
  }
}

function clear(sentence = "") {
  for (const id of ["compared", "mine", "mine-title", "theirs", "theirs-title"]) fill(byId(id));
  fill(byId("compare-note"), ...spoken(sentence));
}

function showFigures(runs) {
  const figures = runs.map(served), known = [...new Set(figures.flatMap((one) => Object.keys(one ?? {})))];
  table(byId("compared"), ["as served", ...runs.map((run) => run.name)], known.map((metric) => [inWords(metric), ...figures.map((one) => figure(one?.[metric]))]));
  const silent = runs.filter((run) => !served(run)).map((run) => run.name);
  byId("compare-note").textContent = silent.length ? `${silent.join(" and ")} ${silent.length > 1 ? "serve" : "serves"} the trained model's own lists.` : "";
}

function showLists(runs, whose, lists) {
  const topics = lists.map(covered);
  ["mine", "theirs"].forEach((side, at) => {
    byId(`${side}-title`).textContent = `${runs[at].name} serves user ${whose}`;
    showList(byId(side), plain(lists[at]), topics[1 - at]);
  });
}

// In a comparison of two runs, changes since the trained model are not shown.
const plain = (entries) => entries.map((entry) => ({ ...entry, state: "stayed" }));
