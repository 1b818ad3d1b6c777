// The page: run, budget and user determine everything else.

import { byId, el, figure, fill, gainIn, inWords, percent, show, spoken, table } from "./dom.js";
import { Overtaken, Refused, get, ofRun, post, turnTo } from "./api.js";
import { drawFront } from "./front.js";
import { covered, showList } from "./lists.js";
import { watch } from "./live.js";
import * as factors from "./factors.js";
import * as compare from "./compare.js";

const state = { visit: null, run: null, names: [], summary: null, goal: null, path: null, user: null, shown: null };
const SOON = 700; // milliseconds until a run that is not ready is requested again

function tell(sentence) {
  fill(byId("notice"), ...spoken(sentence));
  show(byId("notice"), Boolean(sentence));
}

// Errors of the server are shown on the page; other errors are faults of this page and are thrown.
const safely = (work) => async (...given) => {
  try {
    await work(...given);
  } catch (error) {
    if (error instanceof Refused) tell(error.message);
    else if (!(error instanceof Overtaken)) throw error;
  }
};

// -- run --------------------------------------------------------------------------------------------------------------

const start = safely(async () => {
  const runs = await get("");
  state.names = runs.map((run) => run.name);
  fill(byId("run"), ...runs.map((run) => el("option", { value: run.name }, run.name)));
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (state.names.includes(wanted.get("run"))) byId("run").value = wanted.get("run");
  if (wanted.get("budget")) byId("budget").value = wanted.get("budget");
  state.user = wanted.get("user");
  await openRun();
});

const openRun = safely(async () => {
  turnTo();
  Object.assign(state, { visit: Symbol("visit"), run: byId("run").value, summary: null, path: null, goal: null, shown: null });
  for (const id of ["budget-section", "people-section"]) show(byId(id), false);
  for (const id of ["before", "after", "found"]) fill(byId(id)); // nothing of the previous run may appear under the name of this one
  factors.leave();
  compare.leave();
  watch(state.run, () => refresh());
  await refresh();
});

const refresh = safely(async () => {
  const { visit, run } = state, summary = await get(ofRun(run), {}, "run");
  byId("about-run").textContent = summary.n_users
    ? `${summary.title}: ${summary.n_users.toLocaleString("en")} users, ${summary.n_items.toLocaleString("en")} items, ${summary.n_subtopics} subtopics` : summary.title;
  const progress = byId("progress"), working = summary.phase === "preparing" || (summary.phase === "ready" && summary.total > 0);
  show(progress, working);
  if (summary.total) Object.assign(progress, { max: summary.total, value: summary.done });
  else progress.removeAttribute("value");
  tell(summary.phase === "preparing" ? `Getting ready: ${summary.message}. The result is kept in the run.` : summary.message);
  if (summary.phase !== "broken" && (summary.phase !== "ready" || summary.total > 0 || summary.message)) setTimeout(() => state.visit === visit && refresh(), SOON);
  if (summary.phase === "ready" && (!state.summary || summary.goals.length !== state.summary.goals.length)) await becomeReady(summary);
});

async function becomeReady(summary) {
  const first = state.summary === null, visit = state.visit;
  state.summary = summary;
  fill(byId("goal"), ...summary.possible_goals.concat(summary.goals.filter((goal) => !summary.possible_goals.includes(goal)))
    .map((goal) => el("option", { value: goal }, summary.goals.includes(goal) ? inWords(goal) : `${inWords(goal)} (takes a moment)`)));
  state.goal = state.goal && summary.goals.includes(state.goal) ? state.goal : summary.goals[0];
  byId("goal").value = state.goal;
  for (const id of ["budget-section", "people-section"]) show(byId(id), true);
  show(byId("report-link"), summary.has_report);
  byId("get-report").href = `/api/runs${ofRun(state.run, "/download/report")}`;
  await openFirst(); // if another goal is chosen meanwhile, it takes over, and the rest of the page continues
  if (first && state.visit === visit) {
    await openUser(state.user ?? summary.example_user);
    if (state.visit !== visit) return; // another run was chosen meanwhile
    compare.offerRuns(summary, state.names);
    factors.showFactors(state.run, summary.served !== null);
  }
}

const wantGoal = safely(async () => {
  state.goal = byId("goal").value;
  if (state.summary.goals.includes(state.goal)) return openGoal();
  stale(true); // the figures still belong to the previous goal
  await post(ofRun(state.run, `/paths/${encodeURIComponent(state.goal)}`));
  return refresh();
});

const openFirst = safely(() => openGoal());

// Marks figures that belong to another goal than the chosen one.
function stale(yes) {
  byId("budget-section").classList.toggle("stale", yes);
}

async function openGoal() {
  state.path = await get(ofRun(state.run, `/paths/${encodeURIComponent(state.goal)}`), {}, "path");
  stale(false);
  const labelled = state.path.points[0].loss !== null, slider = byId("budget");
  show(byId("certified-field"), labelled);
  Object.assign(slider, labelled ? { max: 10, step: 0.1 } : { max: state.path.points.length - 1, step: 1 });
  byId("budget-label").firstChild.textContent = labelled ? "Accuracy that may be lost at most: " : "Stop: ";
  await moveBudget();
}

// -- budget -----------------------------------------------------------------------------------------------------------

// As on the server: the last of the certified points in a row from the start, or the furthest point measured within it.
function reach() {
  const budget = Number(byId("budget").value), points = state.path.points;
  if (points[0].loss === null) return budget;
  const share = budget / 100;
  if (!byId("certified").checked) return Math.max(...points.filter((one) => one.loss <= share).map((one) => one.point));
  const beyond = points.findIndex((one) => one.certified_within > share);
  return (beyond < 0 ? points.length : beyond) - 1;
}

const moveBudget = safely(async () => {
  if (state.path === null) return; // a control was used before the path is there
  const point = reach(), here = state.path.points[point], labelled = here.loss !== null;
  byId("budget-value").textContent = labelled ? percent(Number(byId("budget").value) / 100) : `stop ${point} of ${state.path.points.length - 1}`;
  byId("sentence").replaceChildren(...sentence(here));
  const names = Object.keys(here.values), base = state.path.points[0].values;
  table(byId("metrics"), ["", "now", "then", "change"], names.map((name) => [inWords(name), figure(base[name]), figure(here.values[name]), changed(here.changes[name], name)]));
  table(byId("stops"), ["stop", "lost", "certified within", "gained"],
    state.path.points.map((one) => [String(one.point), percent(one.loss, 2), percent(one.certified_within, 2), gainIn(state.path.metric, one.changes)]), (at) => (at === point ? "here" : null));
  for (const what of ["lists", "vectors"]) byId(`get-${what}`).href = `/api/runs${ofRun(state.run, `/download/${what}`)}?${new URLSearchParams({ goal: state.goal, point })}`;
  showOwn();
  remember();
  await Promise.all([drawFront(byId("front"), state.path, point, `gain: ${inWords(state.path.metric)}`), showLists(point), showPayers(point, labelled)]);
});

async function showPayers(point, labelled) {
  const known = labelled && point > 0;
  show(byId("payers-field"), known);
  if (!known) return fill(byId("pays"));
  await new Promise((done) => setTimeout(done, SOON / 2)); // the test takes a moment, so it waits until the slider rests
  if (reach() !== point) return undefined;
  const found = await get(ofRun(state.run, "/payers"), { goal: state.path.goal, point }, "payers");
  byId("pays").textContent = found.sentence;
  return table(byId("payers"), ["", "users", "change", "95 % interval"],
    found.rows.map((row) => [row.segment, row.users.toLocaleString("en"), percent(row.relative, 1, true), row.low === null ? "–" : `${percent(row.low, 1, true)} to ${percent(row.high, 1, true)}`]));
}

function sentence(here) {
  const what = inWords(state.path.metric), gained = gainIn(state.path.metric, here.changes);
  if (here.point === 0) return ["Nothing changes: ", byId("certified").checked ? "no stop is certified to keep this budget. Try a larger budget, or hold out more users." : "no stop keeps this budget."];
  if (here.loss === null) return [el("b", {}, `${gained} ${what}`), ". What that costs in accuracy is not known: this run has no held-out interactions."];
  const { part, confidence, users, cost } = state.path, price = here.loss >= 0 ? ` for ${percent(here.loss, 2)} of the accuracy.` : `, and ${percent(-here.loss, 2)} more accuracy.`;
  const sure = byId("certified").checked ? ` With ${percent(confidence, 0)} confidence at most ${percent(Number(byId("budget").value) / 100)}, measured on ${users.toLocaleString("en")} users of the ${part} part.` : ` Measured on the ${part} part, not certified.`;
  const since = part === "test" || !(cost in here.changes) ? "" : ` On the test part, which was not used for this: ${percent(here.changes[cost], 2, true)}.`;
  return [el("b", {}, `${gained} ${what}`), price, sure, since];
}

function changed(share, name) {
  const better = name.startsWith("gini@") ? -share : share;
  return el("span", { class: better > 0.0005 ? "better" : better < -0.0005 ? "worse" : null }, percent(share, 1, true));
}

function showOwn() {
  const own = state.summary.served, { metric } = state.path, changes = {};
  for (const name of Object.keys(own?.after ?? {})) if (own.before[name]) changes[name] = own.after[name] / own.before[name] - 1;
  byId("own").textContent = own === null ? "This run itself still serves the trained model's lists."
    : `This run itself already serves changed vectors${changes[metric] !== undefined ? ` (${gainIn(metric, changes)} ${inWords(metric)})` : ""}. ${own.certificate ?? "Their price was measured, not certified."}`;
}

// -- user -------------------------------------------------------------------------------------------------------------

const openUser = safely(async (user) => {
  state.user = user;
  tell("");
  remember();
  factors.forUser(user); // before the lists, because a budget that is moved meanwhile replaces those
  compare.forUser(user);
  if (state.path) await showLists(reach()); // otherwise they come with the path
});

async function showLists(point) {
  const wanted = JSON.stringify([state.user, state.goal, point]);
  if (state.user === null || state.shown === wanted) return; // a budget that was moved may lead to the same point
  state.shown = wanted;
  let answer;
  try {
    answer = await get(ofRun(state.run, "/lists"), { user: state.user, goal: state.goal, point }, "lists");
  } catch (error) {
    if (state.shown === wanted) state.shown = null;
    throw error;
  }
  const known = covered(answer.before), now = covered(answer.after);
  byId("people-title").textContent = `User ${answer.user}, before and after`;
  const topics = answer.history.subtopics.map(([name, count]) => `${name} ${count}`).join(", ");
  byId("history").textContent = `Took ${answer.history.items} items before${topics ? `, mostly ${topics}` : ""}. The list covers ${known.size} subtopics now, ${now.size} then.`;
  showList(byId("before"), answer.before);
  showList(byId("after"), answer.after, known);
}

const search = safely(async () => {
  const words = byId("search").value.trim();
  if (!words) return fill(byId("found"));
  const found = await get(ofRun(state.run, "/search"), { q: words }, "search");
  const hit = (text, action) => el("li", {}, el("button", { type: "button", onclick: action }, text));
  const hits = [...found.users.map((user) => hit(`user ${user}`, () => chooseUser(user))),
    ...found.items.map((item) => hit(item.year ? `${item.title} (${item.year})` : item.title, () => openItem(item.id)))];
  return fill(byId("found"), hits.length ? el("ul", { class: "hits" }, ...hits) : el("p", {}, `No user id begins with “${words}”, and no title holds it.`));
});

function chooseUser(user) {
  fill(byId("found"));
  byId("search").value = "";
  return openUser(user);
}

const openItem = safely(async (id) => {
  const answer = await get(ofRun(state.run, "/items"), { item: id, goal: state.goal, point: reach() }, "item");
  const { item } = answer;
  const who = (words, users) => (users.length ? el("p", {}, words, el("span", { class: "hits" }, ...users.map((user) => el("button", { type: "button", onclick: () => chooseUser(user) }, `user ${user}`)))) : null);
  fill(byId("found"), el("h3", {}, item.year ? `${item.title} (${item.year})` : item.title), el("p", { class: "soft" }, item.subtopics.join(", ")),
    el("p", {}, `In ${answer.lists_before.toLocaleString("en")} lists now, in ${answer.lists_after.toLocaleString("en")} within the budget.`),
    who("Came to ", answer.gained), who("Left ", answer.lost));
});

const anyone = safely(async () => {
  const digit = String(1 + Math.floor(9 * Math.random()));
  const found = await get(ofRun(state.run, "/search"), { q: digit + String(Math.floor(100 * Math.random())) }, "anyone");
  const users = found.users.length ? found.users : [state.summary.example_user];
  await chooseUser(users[Math.floor(users.length * Math.random())]);
});

// -- wiring -----------------------------------------------------------------------------------------------------------

// The link of this page leads to the same run, budget and user.
function remember() {
  const here = new URLSearchParams({ run: state.run, budget: byId("budget").value, ...(state.user === null ? {} : { user: state.user }) });
  history.replaceState(null, "", `#${here}`);
}

byId("run").addEventListener("change", () => { state.user = null; openRun(); });
byId("goal").addEventListener("change", wantGoal);
byId("budget").addEventListener("input", moveBudget);
byId("certified").addEventListener("change", moveBudget);
byId("search").addEventListener("input", search);
byId("anyone").addEventListener("click", anyone);
byId("scale").addEventListener("input", factors.turn);
byId("other").addEventListener("change", compare.compare);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.path && moveBudget());
start();
