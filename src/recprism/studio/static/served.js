// The monitor of a served log: verdict, alarms, days as a chart and as tables; and the steps of a governor.

import { byId, el, figure, fill, percent, show, showCommand, table } from "./dom.js";
import { get } from "./api.js";
import { drawDays } from "./charts.js";

const MARKS = { fires: "FIRES", holds: "holds", "not decided": "not decided" };
const twoDecimals = (value) => (value === null ? "–" : value.toFixed(2));

export function begin() {}

async function openGovernor() {
  const found = await get("/governor", {}, "governor");
  show(byId("governor"), found);
  if (!found) return;
  byId("governor-verdict").textContent = found.verdict;
  table(byId("governor-prices"), ["price", "answer", "outcome", "may be lost", "is lost", "from", "to"], found.prices.map((row) => [
    row.price === found.price ? `${row.price} (present)` : row.price, row.answer, row.question, percent(row.budget), percent(row.loss), percent(row.low), percent(row.high),
  ]), (at) => (found.prices[at].price === found.price ? "here" : null));
  fill(byId("governor-notes"), ...found.notes.map((words) => el("li", {}, words)));
  table(byId("governor-changes"), ["time", "price", "why"], found.changes.map((row) => [row.when, row.what, row.why]));
}

export async function open() {
  showCommand("");
  await openGovernor();
  byId("which").textContent = "What users were served, from the log of the service.";
  const found = await get("/monitor", {}, "monitor"), rows = [...found.days, found.total];
  byId("served-verdict").textContent = found.verdict;
  fill(byId("served-alarms"), ...found.alarms.map((one) => el("li", {}, el("strong", {}, MARKS[one.state]), `: ${one.sentence}`)));
  table(byId("served-days"), ["day", "requests", "base", "rule", "shown", "kept", "from", "to"], rows.map((row) => [
    row.day, row.requests.toLocaleString("en"), figure(row.base), figure(row.rule), figure(row.shown), percent(row.retained), percent(row.low), percent(row.high),
  ]));
  table(byId("served-service"), ["day", "fallbacks", "constraints not met", "holdout", "swaps per list", "median ms", "99 % within ms"], rows.map((row) => [
    row.day, percent(row.fallbacks, 2), percent(row.unmet, 2), percent(row.holdout, 2), twoDecimals(row.swaps), twoDecimals(row.median_ms), twoDecimals(row.p99_ms),
  ]));
  byId("served-holdout").textContent = found.holdout;
  fill(byId("served-notes"), ...found.notes.map((words) => el("li", {}, words)));
  await drawDays(byId("served-chart"), found.days, found.floor);
}
