// The page: a run, a view, and what the view is about. The link of the page leads back to all of it.

import { byId, copy, download, duration, el, fill, inWords, show, showCommand, spoken, tableAsCsv } from "./dom.js";
import { Overtaken, Refused, change, get, ofRun, turnTo } from "./api.js";
import { watch } from "./live.js";
import * as everyone from "./everyone.js";
import * as item from "./item.js";
import * as results from "./results.js";
import * as served from "./served.js";
import * as user from "./user.js";

const VIEWS = { user, everyone, item, results, served };
const OF_ALL_RUNS = ["results", "served"];
const SOON = 700; // milliseconds until a run that is not ready is requested again

// source: whether views show the run's result or a stop of a path; ask: the question that a user's list was asked, as
// why:ID, without:ID or forget:ID; link: what the link of the page asks for, until its run is ready
const state = {
  mayChange: true, visit: null, run: null, summary: null, view: "user", user: null, item: null, goal: null, point: null, budget: 5, source: "result", stopCommand: "", awaited: null, ask: null, link: null,
  shown: () => (state.source === "result" && state.summary?.served ? {} : state.goal && state.point !== null ? { goal: state.goal, point: state.point } : {}),
  command: () => state.stopCommand,
  safely, remember, openUser, openItem, openRun, wantPath, tellLists,
};

function tell(sentence) {
  fill(byId("notice"), ...spoken(sentence));
  show(byId("notice"), Boolean(sentence));
}

// Errors of the server are shown on the page; other errors are faults of this page and are thrown.
function safely(work) {
  return async (...given) => {
    try {
      await work(...given);
    } catch (error) {
      if (error instanceof Refused) tell(error.message);
      else if (!(error instanceof Overtaken)) throw error;
    }
  };
}

// -- run --------------------------------------------------------------------------------------------------------------

const start = safely(async () => {
  const [runs, visitor] = await Promise.all([get("/runs"), get("/visitor")]);
  state.mayChange = visitor.may_change;
  show(byId("reader"), !visitor.may_change);
  fill(byId("run"), ...runs.map((run) => el("option", { value: run.name }, run.name)));
  const wanted = new URLSearchParams(location.hash.slice(1)), names = runs.map((run) => run.name);
  show(byId("served-tab"), visitor.has_log);
  if (Object.hasOwn(VIEWS, wanted.get("view")) && (wanted.get("view") !== "served" || visitor.has_log)) state.view = wanted.get("view");
  if (Number.isFinite(Number(wanted.get("budget") ?? "x"))) byId("budget").value = wanted.get("budget");
  byId("certified").checked = wanted.get("certified") !== "no";
  byId("judged").checked = wanted.get("lists") === "judged";
  Object.assign(state, { user: wanted.get("user"), item: wanted.get("item"), ask: wanted.get("ask"), link: wanted });
  await turn(names.includes(wanted.get("run")) ? wanted.get("run") : names[0]);
});

async function openRun(name) {
  Object.assign(state, { user: null, item: null, ask: null, link: null, view: "user" });
  await turn(name);
}

const turn = safely(async (name) => {
  turnTo();
  byId("run").value = name;
  Object.assign(state, { visit: Symbol("visit"), run: name, summary: null, goal: null, point: null, source: "result", stopCommand: "", awaited: null });
  for (const view of [user, everyone, item]) view.leave(); // nothing of the previous run may appear under the name of this one
  showViews();
  showCommand("");
  watch(state.run, () => refresh());
  await refresh();
});

const refresh = safely(async () => {
  const { visit, run } = state, summary = await get(ofRun(run), {}, "run");
  byId("about-run").textContent = summary.n_users
    ? `${summary.title}: ${summary.n_users.toLocaleString("en")} users, ${summary.n_items.toLocaleString("en")} items` : summary.title;
  showWork(summary);
  if (summary.phase !== "broken" && (summary.phase !== "ready" || summary.total > 0 || summary.message)) setTimeout(() => state.visit === visit && refresh(), SOON);
  if (summary.phase === "ready") await becomeReady(summary);
});

// What is being done: at the top with a bar, and under Activity.
function showWork(summary) {
  const { phase, message, total, done, seconds_left: left, problem, waiting } = summary, progress = byId("progress");
  show(byId("work"), phase === "preparing" || (phase === "ready" && message !== ""));
  show(byId("cancel"), state.mayChange && waiting.length > 0);
  if (total) Object.assign(progress, { max: total, value: done });
  else progress.removeAttribute("value");
  const doing = total ? `${message}: step ${done} of ${total}${left === null ? "" : `, about ${duration(left)} left`}` : message;
  byId("working").textContent = byId("work").hidden ? "" : `In this studio: ${doing}.`;
  tell(phase === "preparing" ? `Getting ready: ${doing}. The result is kept in the run.` : problem || doing);
}

async function wantPath(goal) {
  await change("POST", ofRun(state.run, `/paths/${encodeURIComponent(goal)}`));
  state.awaited = goal;
  refresh();
}

// The path that this page waits for, else the one that is computed.
const cancel = safely(async () => {
  const goal = state.awaited ?? state.summary.waiting?.[0];
  if (goal) await change("DELETE", ofRun(state.run, `/paths/${encodeURIComponent(goal)}`));
  await refresh();
});

// Which lists a screen shows, and whether they are served.
function tellLists(live) {
  const own = state.source === "result" && state.summary?.served, stop = state.goal && state.point;
  const what = own ? "of this run's result" : stop ? `of stop ${state.point} towards ${inWords(state.goal)}` : "of the trained model";
  const served = !live ? "Figures come from them; users are served live lists." : own ? "An export of this result serves these lists." : stop ? "A preview: they are not served until the command of this stop makes a result." : "Nothing is changed in them.";
  byId("which").textContent = `${live ? "Live lists (all known history)" : "Judged lists (history before the held-out part)"} ${what}. ${served}`;
}

// What the link shows: a stop of a path, which may have to be computed first.
async function followLink(summary) {
  const goal = state.link?.get("goal");
  state.link = null;
  if (!goal) return;
  state.source = "stop";
  if (summary.goals.includes(goal)) await everyone.turnToGoal(goal);
  else if (state.mayChange) await wantPath(goal);
}

async function becomeReady(summary) {
  const first = state.summary === null, arrived = state.awaited !== null && summary.goals.includes(state.awaited);
  state.summary = summary;
  if (first) {
    state.source = summary.served ? "result" : "stop";
    state.user ??= summary.example_user;
    await followLink(summary);
    await openView();
  } else if (arrived) {
    const goal = state.awaited;
    state.awaited = null;
    await everyone.turnToGoal(goal);
    await openView();
  } else if (state.awaited !== null && !summary.message) { // the path could not be made, or the run was opened again
    state.awaited = null;
    await openView();
  }
}

// -- views ------------------------------------------------------------------------------------------------------------

function showViews() {
  for (const name of Object.keys(VIEWS)) {
    show(byId(`${name}-view`), state.view === name && (state.summary !== null || OF_ALL_RUNS.includes(name)));
    byId(`${name}-tab`).setAttribute("aria-current", state.view === name ? "page" : "false");
  }
}

const openView = safely(async () => {
  showViews();
  remember();
  showCommand("");
  if (state.summary !== null || OF_ALL_RUNS.includes(state.view)) await VIEWS[state.view].open();
});

async function turnView(name) {
  state.view = name;
  await openView();
}

async function openUser(id) {
  Object.assign(state, { user: id, ask: null });
  tell("");
  await turnView("user");
  byId("user-title").focus();
}

async function openItem(id) {
  state.item = id;
  await turnView("item");
  byId("item-title").focus();
}

function remember() {
  const stop = state.link ? { goal: state.link.get("goal"), certified: state.link.get("certified") } // it is not followed yet
    : state.source === "stop" && state.goal ? { goal: state.goal, certified: byId("certified").checked ? null : "no" } : {};
  const parts = { run: state.run, view: state.view, user: state.user, item: state.item, budget: byId("budget").value, ...stop, lists: byId("judged").checked ? "judged" : null, ask: state.ask };
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(parts).filter(([, value]) => value !== null))}`);
}

// -- wiring -----------------------------------------------------------------------------------------------------------

for (const view of Object.values(VIEWS)) view.begin(state);
for (const name of Object.keys(VIEWS)) byId(`${name}-tab`).addEventListener("click", () => turnView(name));
byId("run").addEventListener("change", () => openRun(byId("run").value));
byId("cancel").addEventListener("click", cancel);
byId("copy").addEventListener("click", () => copy(byId("command").textContent, byId("command"), byId("copied")));
byId("copy-link").addEventListener("click", () => copy(location.href, null, byId("link-copied")));
for (const link of document.querySelectorAll("[data-csv]")) link.addEventListener("click", () => download(`${link.dataset.csv}.csv`, tableAsCsv(byId(link.dataset.csv))));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => openView());
start();
