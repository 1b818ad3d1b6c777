// Two runs beside each other: what they serve, in figures and for the same user.

import { byId, el, figure, fill, inWords, show, spoken, table } from "./dom.js";
import { Overtaken, Refused, get, ofRun } from "./api.js";
import { covered, showList } from "./lists.js";

let mine = null, user = null;

export function offerRuns(run, names) {
  mine = run;
  const others = names.filter((name) => name !== run.name);
  show(byId("compare-section"), others.length > 0);
  fill(byId("other"), ...others.map((name) => el("option", { value: name }, name)));
  if (others.length) compare();
}

export function forUser(id) {
  user = id;
  if (byId("other").value) compare();
}

const served = (run) => run.served?.after ?? null;

export async function compare() {
  const name = byId("other").value;
  if (user === null) return;
  try {
    const theirs = await get(ofRun(name), {}, "other run");
    fill(byId("compared"));
    for (const id of ["mine", "theirs"]) fill(byId(id));
    if (theirs.phase !== "ready") {
      fill(byId("compare-note"), ...spoken(`${name}: ${theirs.message}`));
      return;
    }
    const figures = [mine, theirs].map(served);
    byId("mine-title").textContent = `${mine.name} serves user ${user}`;
    byId("theirs-title").textContent = `${theirs.name} serves user ${user}`;
    const known = [...new Set(figures.flatMap((one) => Object.keys(one ?? {})))];
    table(byId("compared"), ["as served", mine.name, theirs.name], known.map((metric) => [inWords(metric), ...figures.map((one) => figure(one?.[metric]))]));
    const silent = [mine, theirs].filter((run) => !served(run)).map((run) => run.name);
    byId("compare-note").textContent = silent.length ? `${silent.join(" and ")} serves the trained model's own lists.` : "";
    const lists = await Promise.all([mine.name, name].map((run) => get(ofRun(run, "/served"), { user }, `served by ${run}`)));
    const topics = lists.map((list) => covered(list.after));
    lists.forEach((list, at) => showList(byId(at ? "theirs" : "mine"), plain(list.after), topics[1 - at]));
  } catch (error) {
    if (error instanceof Refused) byId("compare-note").textContent = error.message;
    else if (!(error instanceof Overtaken)) throw error;
  }
}

// Beside another run, what became of a place since the trained model is not the question.
const plain = (entries) => entries.map((entry) => ({ ...entry, state: "stayed" }));
