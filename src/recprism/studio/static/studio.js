// The page: a run, a view, and what the view is about. The link of the page leads back to all of it.

import { byId, download, el, fill, show, showCommand, spoken, tableAsCsv } from "./dom.js";
import { Overtaken, Refused, get, ofRun, turnTo } from "./api.js";
import { watch } from "./live.js";
import * as everyone from "./everyone.js";
import * as item from "./item.js";
import * as results from "./results.js";
import * as served from "./served.js";
import * as user from "./user.js";

const VIEWS = { user, everyone, item, results, served };
const OF_ALL_RUNS = ["results", "served"];
const SOON = 700; // milliseconds until a run that is not ready is requested again

// source: whether views show the run's result or a stop of a path
const state = {
  mayChange: true, visit: null, run: null, summary: null, view: "user", user: null, item: null, goal: null, point: null, budget: 5, source: "result", stopCommand: "", awaited: null,
  shown: () => (state.source === "result" && state.summary?.served ? {} : state.goal && state.point !== null ? { goal: state.goal, point: state.point } : {}),
  command: () => state.stopCommand,
  safely, remember, openUser, openItem, openRun,
  waitFor: (goal) => { state.awaited = goal; refresh(); },
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
  Object.assign(state, { user: wanted.get("user"), item: wanted.get("item") });
  await turn(names.includes(wanted.get("run")) ? wanted.get("run") : names[0]);
});

async function openRun(name) {
  Object.assign(state, { user: null, item: null, view: "user" });
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
  const progress = byId("progress"), working = summary.phase === "preparing" || (summary.phase === "ready" && summary.total > 0);
  show(progress, working);
  if (summary.total) Object.assign(progress, { max: summary.total, value: summary.done });
  else progress.removeAttribute("value");
  tell(summary.phase === "preparing" ? `Getting ready: ${summary.message}. The result is kept in the run.` : summary.problem || summary.message);
  if (summary.phase !== "broken" && (summary.phase !== "ready" || summary.total > 0 || summary.message)) setTimeout(() => state.visit === visit && refresh(), SOON);
  if (summary.phase === "ready") await becomeReady(summary);
});

async function becomeReady(summary) {
  const first = state.summary === null, arrived = state.awaited !== null && summary.goals.includes(state.awaited);
  state.summary = summary;
  if (first) {
    state.source = summary.served ? "result" : "stop";
    state.user ??= summary.example_user;
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
  state.user = id;
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
  const parts = { run: state.run, view: state.view, user: state.user, item: state.item, budget: byId("budget").value };
  history.replaceState(null, "", `#${new URLSearchParams(Object.entries(parts).filter(([, value]) => value !== null))}`);
}

// -- wiring -----------------------------------------------------------------------------------------------------------

for (const view of Object.values(VIEWS)) view.begin(state);
for (const name of Object.keys(VIEWS)) byId(`${name}-tab`).addEventListener("click", () => turnView(name));
byId("run").addEventListener("change", () => openRun(byId("run").value));
byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(byId("command").textContent);
    byId("copied").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(byId("command"));
    byId("copied").textContent = "Selected; press Ctrl-C.";
  }
});
for (const link of document.querySelectorAll("[data-csv]")) link.addEventListener("click", () => download(`${link.dataset.csv}.csv`, tableAsCsv(byId(link.dataset.csv))));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => openView());
start();
