// Factors and directions, and the effect of scaling each; the dials of a run that a rule made.

import { byId, el, figure, fill, inWords, percent, show, spoken, table } from "./dom.js";
import { Overtaken, Refused, get, ofRun } from "./api.js";
import { showList } from "./lists.js";

let run = null, user = null, chosen = null;

// The page turns to another run: clear what belongs to the previous one.
export function leave() {
  run = user = chosen = null;
  for (const id of ["factors-section", "feature"]) show(byId(id), false);
  for (const id of ["features", "turned", "turned-list"]) fill(byId(id));
}

export async function showFactors(name, diversified) {
  run = name;
  show(byId("factors-section"), true);
  if (!diversified) {
    fill(byId("factors-verdict"), ...spoken("This run was not diversified, so there is no change to explain. `recprism diversify RUN --budget 5%` makes a change."));
    return;
  }
  byId("factors-verdict").textContent = "Reading what changed; the first time this may take some seconds.";
  try {
    const answer = await get(ofRun(run, "/features"));
    fill(byId("factors-verdict"), ...spoken(answer.verdict));
    byId("factors-title").textContent = answer.features.length ? "Factors of this run's change" : "What makes this run's lists";
    const dials = answer.dials.map((dial) => `${dial.name}: ${dial.share < 0 ? "lowered" : "raised"} by ${percent(Math.abs(dial.share), 1)} of the score range on average, for ${dial.users.toLocaleString("en")} users`);
    fill(byId("features"), ...dials.map((text) => el("li", {}, text)), ...answer.features.map((feature) => el("li", {}, card(feature))));
    byId("features").querySelector("button")?.click();
  } catch (error) {
    if (error instanceof Refused) fill(byId("factors-verdict"), ...spoken(error.message));
    else if (!(error instanceof Overtaken)) throw error;
  }
}

function card(feature) {
  const undone = feature.taken_back === null ? "" : `erasing it undoes ${percent(feature.taken_back, 0)} of the gain`;
  const button = el("button", { type: "button", "aria-pressed": "false" }, `${feature.label}: ${feature.name}`, el("small", {}, undone));
  button.addEventListener("click", () => choose(feature, button));
  return button;
}

function choose(feature, button) {
  chosen = feature;
  for (const other of byId("features").querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
  show(byId("feature"), true);
  byId("feature-name").textContent = `${feature.label}: ${feature.name}`;
  byId("feature-sentence").textContent = feature.sentence;
  for (const end of ["high", "low"]) fill(byId(`feature-${end}`), ...feature[end].map((item) => el("li", {}, item.year ? `${item.title} (${item.year})` : item.title)));
  byId("scale").value = "1";
  turn();
}

export function forUser(id) {
  user = id;
  if (chosen) turn();
}

export async function turn() {
  const scale = byId("scale").value;
  byId("scale-value").textContent = `× ${Number(scale).toFixed(1)}`;
  try {
    const answer = await get(ofRun(run, "/turn"), { number: chosen.number, scale, user });
    const rows = Object.keys(answer.values).map((name) => [inWords(name), figure(answer.base[name]), figure(answer.as_found[name]), figure(answer.values[name])]);
    table(byId("turned"), ["over all users", "model", "unchanged", "scaled"], rows);
    byId("turned-user").textContent = String(answer.lists.user);
    showList(byId("turned-list"), answer.lists.after);
  } catch (error) {
    if (error instanceof Refused) fill(byId("turned"), el("tbody", {}, el("tr", {}, el("td", {}, error.message))));
    else if (!(error instanceof Overtaken)) throw error;
  }
}
