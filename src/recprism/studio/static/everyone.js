// All users: goals and budget, figures, the front, who pays, and downloads.

import { button, byId, counted, el, figure, fill, gainIn, inWords, metricsOf, percent, show, showCommand, table, weightsOf } from "./dom.js";
import { Refused, get, ofRun, queryOf } from "./api.js";
import { drawFront } from "./charts.js";

const SOON = 350; // milliseconds that the slider must rest before groups of users are tested
let state = null, path = null;

export function begin(shared) {
  state = shared;
  byId("goals").addEventListener("change", state.safely(wantGoals));
  for (const [id, event] of [["budget", "input"], ["certified", "change"]]) byId(id).addEventListener(event, state.safely(tryBudget));
  byId("of-result").addEventListener("change", state.safely(move));
}

export function leave() {
  path = null;
  for (const id of ["goals", "metrics", "stops", "payers", "segment-users", "verdict", "front"]) fill(byId(id));
}

// A goal as text, with weights unless they are equal.
function chosen() {
  const boxes = [...byId("goals").querySelectorAll("input:checked")];
  const weights = boxes.map((box) => Math.max(Number(box.closest(".chip").querySelector("[type=number]").value) || 1, 1));
  const equal = weights.every((weight) => weight === weights[0]);
  return equal ? boxes.map((box) => box.value).join("+") : boxes.map((box, at) => `${box.value}=${weights[at]}`).join(",");
}

// A path of several goals is the same in any order of them; one that is there is used as it is called.
function named(goal) {
  const same = (mix) => metricsOf(mix).map((name, at) => `${name} ${weightsOf(mix)[at] / Math.min(...weightsOf(mix))}`).sort().join();
  return state.summary.goals.find((mix) => same(mix) === same(goal)) ?? goal;
}

function showWeights() {
  const several = byId("goals").querySelectorAll("input:checked").length > 1;
  for (const chip of byId("goals").children) show(chip.querySelector("[type=number]"), several && chip.querySelector("input").checked);
}

export async function open() {
  const { summary } = state, own = summary.served !== null;
  state.goal ??= summary.goals[0];
  const wanted = state.awaited ?? state.goal, first = metricsOf(wanted), all = [...new Set([...summary.possible_goals, ...first])];
  fill(byId("goals"), ...all.map((goal) => {
    const box = el("input", { type: "checkbox", value: goal });
    box.checked = first.includes(goal);
    box.disabled = !state.mayChange && !summary.goals.some((mix) => metricsOf(mix).includes(goal)); // a reader starts no path
    const weight = el("input", { type: "number", min: "1", max: "9", step: "1", "aria-label": `Weight of ${inWords(goal)}` });
    weight.value = weightsOf(wanted)[first.indexOf(goal)] ?? 1;
    weight.disabled = !state.mayChange;
    return el("span", { class: "chip" }, el("label", {}, box, inWords(goal)), " ", weight);
  }));
  showWeights();
  show(byId("of-result-field"), own);
  byId("of-result").checked = own && state.source === "result";
  await readPath();
}

// The stop of a new path is found before any view shows it.
export async function turnToGoal(goal) {
  Object.assign(state, { goal, source: "stop" });
  await getPath();
  state.point = reach();
}

async function readPath() {
  await getPath();
  await move();
}

// Without labels no budget can be kept, so the slider moves from stop to stop.
async function getPath() {
  path = await get(ofRun(state.run, `/paths/${encodeURIComponent(state.goal)}`), {}, "path");
  const labelled = path.points[0].loss !== null;
  Object.assign(byId("budget"), labelled ? { max: 10, step: 0.1 } : { max: path.points.length - 1, step: 1 });
}

async function wantGoals() {
  showWeights();
  state.awaited = null;
  if (!chosen()) return fill(byId("verdict"), "Choose at least one goal.");
  const goal = named(chosen());
  if (!state.summary.goals.includes(goal)) return wantPath(goal);
  byId("of-result").checked = false;
  state.goal = goal;
  return readPath();
}

// What is shown stays if the server refuses.
async function wantPath(goal) {
  if (!state.mayChange) return fill(byId("verdict"), "This mix of goals has not been computed, and this link may not start it.");
  try {
    await state.wantPath(goal);
  } catch (error) {
    if (error instanceof Refused) for (const box of byId("goals").querySelectorAll("[type=checkbox]")) box.checked = metricsOf(state.goal).includes(box.value);
    showWeights();
    throw error;
  }
  fill(byId("verdict"), "Working on this mix of goals; the progress is shown above. The result is kept.");
  markOld();
}

// What is on the screen while another path is computed belongs to the last goal.
function markOld() {
  const old = state.awaited !== null;
  for (const id of ["everyone-figures", "segment-users"]) byId(id).classList.toggle("old", old);
  byId("old-note").textContent = old ? `Old figures, of ${inWords(state.goal)}: the new ones replace them when the path is computed.` : "";
  show(byId("old-note"), old);
}

// Trying a budget leaves the result; what is shown is then a stop of the path.
async function tryBudget() {
  byId("of-result").checked = false;
  if (path === null) fill(byId("verdict"), "The budget is used as soon as the path is read.");
  await move();
}

// As on the server: the last of the certified points in a row from the start, or the furthest point measured within it.
function reach() {
  const budget = Number(byId("budget").value), { points } = path;
  if (points[0].loss === null) return budget;
  const share = budget / 100;
  if (!byId("certified").checked) return Math.max(...points.filter((one) => one.loss <= share).map((one) => one.point));
  const beyond = points.findIndex((one) => one.certified_within > share);
  return (beyond < 0 ? points.length : beyond) - 1;
}

async function move() {
  if (path === null) return;
  const own = byId("of-result").checked, labelled = path.points[0].loss !== null, point = reach(), here = path.points[point];
  Object.assign(state, { source: own ? "result" : "stop", point, budget: Number(byId("budget").value) });
  state.tellLists(false);
  markOld();
  show(byId("certified-field"), labelled);
  byId("budget-name").textContent = labelled ? "Accuracy that may be lost at most" : "How far along the path";
  byId("budget-value").textContent = labelled ? percent(state.budget / 100) : `stop ${point} of ${path.points.length - 1}`;
  const { served } = state.summary, values = own ? served : { before: path.points[0].values, after: here.values, changes: here.changes };
  fill(byId("verdict"), ...(own ? ofResult(served) : ofStop(here)));
  table(byId("metrics"), ["all users, test part", "before", "after", "change"], Object.keys(values.after).map((name) => [inWords(name), figure(values.before[name]), figure(values.after[name]), changed(values.changes[name], name)]));
  table(byId("stops"), ["stop", "accuracy", "certified within", "gained"], path.points.map((one) => [String(one.point), percent(one.changes[path.cost], 2, true), percent(one.certified_within, 2), gainIn(path.metric, one.changes)]), (at) => (!own && at === point ? "here" : null));
  for (const what of ["lists", "vectors"]) byId(`get-${what}`).href = `/api${ofRun(state.run, `/download/${what}`)}?${queryOf(state.shown())}`;
  show(byId("report-link"), state.summary.has_report);
  byId("get-report").href = `/api${ofRun(state.run, "/download/report")}`;
  state.remember();
  await Promise.all([drawFront(byId("front"), path, own ? null : point, `gain: ${inWords(path.metric)}`), showCommandOf(), showPayers(labelled && (own || point > 0))]);
}

async function showCommandOf() {
  const stop = { goal: path.goal, budget: state.budget / 100, certified: byId("certified").checked };
  const found = await get(ofRun(state.run, "/stop"), state.source === "result" ? {} : stop, "stop");
  state.stopCommand = found.command;
  if (state.view === "everyone") showCommand(found.command);
}

// Gain and cost are those of the table; the certificate names its own part.
function ofStop(here) {
  const what = inWords(path.metric), gained = gainIn(path.metric, here.changes), cost = here.changes[path.cost];
  if (here.point === 0) return ["Nothing changes: ", byId("certified").checked ? "no stop is certified to keep this budget. Try a larger budget, or hold out more users." : "no stop keeps this budget."];
  if (here.loss === null) return [el("b", {}, `${gained} ${what}.`), " What that costs in accuracy is not known: this run has no held-out interactions."];
  const claim = { metric: path.cost, loss: state.budget / 100, confidence: `${percent(path.confidence, 0)} confidence as the only question`, users: path.users, part: path.part };
  return [el("b", {}, `${gained} ${what}; ${percent(cost, 1, true)} accuracy.`), byId("certified").checked ? sure(claim) : " Not certified."];
}

const sure = ({ metric, loss, confidence, users, part }) => ` Certified: at most ${percent(loss)} of ${metric} lost (${confidence}, ${counted(users, "user")} of the ${part} part).`;

function ofResult(served) {
  const metric = `${metricsOf(served.goal)[0]}@10`, gained = served.changes[metric];
  const first = gained === undefined ? "" : `${gainIn(metric, served.changes)} ${inWords(metric)}; `;
  const cost = served.changes["ndcg@10"];
  return [el("b", {}, `${first}${cost === undefined ? "accuracy is not known" : `${percent(cost, 1, true)} accuracy`}.`), served.certified ? sure(served.certified) : " Not certified."];
}

function changed(share, name) {
  const better = name.startsWith("gini@") ? -share : share;
  return el("span", { class: better > 0.0005 ? "better" : better < -0.0005 ? "worse" : null }, percent(share, 1, true));
}

// -- segments ---------------------------------------------------------------------------------------------------------

async function showPayers(known) {
  const wanted = JSON.stringify(state.shown());
  fill(byId("segment-users"));
  await new Promise((done) => setTimeout(done, SOON));
  if (JSON.stringify(state.shown()) !== wanted) return;
  const found = known ? await get(ofRun(state.run, "/payers"), state.shown(), "payers") : { sentence: "", rows: state.summary.segments.map((segment) => ({ segment })) };
  byId("pays").textContent = found.sentence;
  const into = (row) => button(row.segment, state.safely(() => openSegment(row.segment)), { class: "link", title: `List ${row.segment} users` });
  const rows = found.rows.map((row) => [into(row), row.users?.toLocaleString("en") ?? "", percent(row.relative, 1, true), row.low === undefined || row.low === null ? "–" : `${percent(row.low, 1, true)} to ${percent(row.high, 1, true)}`]);
  table(byId("payers"), ["users", "judged", "accuracy", "95 % interval"], rows);
}

async function openSegment(segment) {
  const found = await get(ofRun(state.run, "/segment"), { segment, ...state.shown() }, "segment");
  const users = found.users.map((one) => el("li", {}, button(`user ${one.user} (${one.new} new)`, () => state.openUser(one.user))));
  fill(byId("segment-users"), el("h3", {}, `${found.segment}: ${counted(found.total, "user")}, most changed first`), el("ul", { class: "hits" }, ...users));
}
