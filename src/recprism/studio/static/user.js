// One user: history, lists before and after, reasons, dials, "why not this?" and "what if?".

import { button, byId, counted, el, fill, percent, show, showCommand, spoken, titled } from "./dom.js";
import { Overtaken, Refused, get, ofRun } from "./api.js";
import { addReasons, covered, showList } from "./lists.js";
import { finder } from "./find.js";

let state = null, answer = null, opened = null, opener = null, reasons = new Map(), steering = false, again = false;

export function begin(shared) {
  state = shared;
  finder("find-user", ["users", "items"], () => state.run, (kind, hit) => (kind === "users" ? state.openUser(hit) : state.openItem(hit.id)));
  finder("find-why-not", ["items"], () => state.run, (_, item) => explain(item, byId("why-not-answer"), "why not"));
  byId("anyone").addEventListener("click", state.safely(anyone));
  byId("judged").addEventListener("change", state.safely(() => {
    state.ask = null;
    return open();
  }));
  byId("reset").addEventListener("click", reset);
  byId("back").addEventListener("click", close);
}

export function leave() {
  answer = null;
  for (const id of ["before", "after", "history", "dials", "why-not-answer", "user-facts"]) fill(byId(id));
  show(byId("what-if"), false);
}

const asked = (more = {}) => ({ user: state.user, judged: byId("judged").checked, ...state.shown(), ...more });

// Answers and errors about lists that the page has left do not count.
async function ask(path, more, about) {
  const mine = opened;
  try {
    return await get(ofRun(state.run, path), asked(more), about);
  } finally {
    if (mine !== opened) throw new Overtaken();
  }
}

// A late answer leaves the command of another view alone.
function tellCommand(text) {
  if (state.view === "user") showCommand(text || state.command());
}

export async function open() {
  opened = Symbol("opened");
  reasons = new Map();
  answer = await ask("/user", {}, "user");
  show(byId("what-if"), false);
  fill(byId("why-not-answer"));
  byId("user-title").textContent = `User ${answer.user}`;
  showHistory();
  showDials();
  showLists(answer);
  state.tellLists(answer.live);
  state.remember();
  tellCommand(answer.command);
  fill(byId("user-note"), ...spoken(answer.note));
  if (answer.note) return;
  askAgain();
  const found = await ask("/reasons", {}, "reasons");
  reasons = new Map(found.reasons.map((one) => [String(one.id), one.reason]));
  addReasons(byId("after"), reasons);
}

function showLists({ before, after }) {
  const known = covered(before), now = covered(after), fresh = after.filter((entry) => entry.state === "new").length;
  const categories = known.size ? ` It covers ${counted(now.size, "category", "categories")} instead of ${known.size}.` : "";
  fill(byId("user-facts"), el("b", {}, fresh ? `${fresh} of ${after.length} items are new.` : "The items stay the same."), categories);
  byId("after-title").textContent = `After: ${answer.what} (${answer.live ? "live" : "judged"} list)`;
  showList(byId("before"), before, { open: choose });
  showList(byId("after"), after, { known, open: choose, reasons });
}

// The question of the link, or the one that was asked before another view.
function askAgain() {
  const [, what, id] = /^(why|without|forget):(.*)$/s.exec(state.ask ?? "") ?? [];
  if (!what) return;
  if (what !== "why") whatIf(what, { id });
  else {
    const node = [...byId("after").querySelectorAll(".entry")].find((it) => it.dataset.id === id);
    if (node) node.querySelector(".title").click();
    else explain({ id }, byId("why-not-answer"), "why not");
  }
}

function note(question) {
  state.ask = question;
  state.remember();
}

// -- reasons ----------------------------------------------------------------------------------------------------------

function choose(entry, node, title) {
  const old = node.querySelector(".more");
  title.setAttribute("aria-expanded", String(!old));
  if (old) {
    note(null);
    return old.remove();
  }
  const more = el("div", { class: "more", "aria-live": "polite" }, "…");
  node.append(more);
  return explain(entry, more, `why ${node.closest("[id]").id} ${entry.id}`);
}

async function explain(item, node, about) {
  note(`why:${item.id}`);
  await safely(node, async () => {
    const found = await ask("/why", { item: item.id }, about);
    const [first, detail] = found.sentences;
    fill(node, el("p", {}, el("b", {}, `${titled(found.item)}: `), first), el("p", { class: "soft" }, detail),
      el("p", { class: "actions" }, found.inside ? button("What if it is removed?", () => whatIf("without", item)) : null, button("Who sees it", () => state.openItem(item.id))));
    tellCommand(found.command);
  });
}

async function safely(node, work) {
  try {
    await work();
  } catch (error) {
    if (error instanceof Refused) fill(node, ...spoken(error.message));
    else if (!(error instanceof Overtaken)) throw error;
  }
}

// -- what if ----------------------------------------------------------------------------------------------------------

async function whatIf(change, item) {
  note(`${change}:${item.id}`);
  const node = byId("what-if-sentence"), mine = opened;
  opener = document.activeElement;
  show(byId("what-if"), true);
  fill(byId("what-if-list"));
  await safely(node, async () => {
    const found = await ask("/what-if", { item: item.id, change }, "what if");
    node.textContent = found.sentences[0];
    showList(byId("what-if-list"), found.after);
    tellCommand(found.command);
  });
  if (mine !== opened) return;
  byId("what-if").scrollIntoView({ block: "nearest" });
  byId("back").focus();
}

// The focus returns to what opened the question.
function close() {
  note(null);
  show(byId("what-if"), false);
  (opener?.isConnected ? opener : byId("user-title")).focus();
}

function showHistory() {
  const { total, categories, items } = answer.history;
  byId("history-facts").textContent = `${counted(total, "item")}${categories.length ? `, mostly ${categories.map(([name, n]) => `${name} (${n})`).join(", ")}` : ""}.`;
  const row = (item) => el("li", {}, el("span", {}, titled(item)), answer.note ? null : button("×", () => whatIf("forget", item), { class: "forget", title: "What if this were not in the history?", "aria-label": `What if ${titled(item)} were not in the history?` }));
  fill(byId("history"), ...items.map(row), total > items.length ? el("li", { class: "soft" }, `and ${total - items.length} more`) : null);
}

// -- dials ------------------------------------------------------------------------------------------------------------

function showDials() {
  const dials = [...answer.dials].sort((a, b) => Math.abs(b.share) - Math.abs(a.share) || a.name.localeCompare(b.name));
  show(byId("dials-field"), dials.length > 0);
  fill(byId("dials-note"), ...spoken(answer.dials_note));
  fill(byId("dials"), ...dials.map(dial));
}

function dial({ name, share, own }) {
  const value = el("output", {}, signed(own)), slider = el("input", { type: "range", min: "-1", max: "1", step: "0.05", "data-dial": name, "data-own": own, "aria-label": `${name}: share of the score range to add` });
  slider.value = own;
  slider.addEventListener("input", () => {
    value.textContent = signed(Number(slider.value));
    steer();
  });
  const found = el("span", { class: "bar", title: `found by recprism: ${percent(share, 1, true)} of the score range`, "aria-hidden": "true" }, el("i"));
  const width = Math.min(Math.abs(share), 0.5) * 100; // half of the bar is half of the score range
  Object.assign(found.firstChild.style, { width: `${width}%`, left: `${share < 0 ? 50 - width : 50}%` });
  return el("li", {}, el("span", { class: "dial-name" }, name), el("span", { class: share ? "dial-found" : "dial-found none" }, share ? `found ${percent(share, 1, true)}` : "not used"), found, slider, value);
}

const signed = (value) => (value > 0 ? "+" : "") + value.toFixed(2).replace("-", "−");

// One request at a time; the last position of the sliders counts.
async function steer() {
  if (steering) {
    again = true;
    return;
  }
  steering = true;
  const sliders = [...byId("dials").querySelectorAll("input")];
  const set = sliders.filter((it) => Number(it.value) || Number(it.dataset.own)).map((it) => `${it.dataset.dial}=${it.value}`);
  try {
    if (set.length) await showSteered(set);
    else {
      showLists(answer);
      tellCommand(answer.command);
      byId("dials-effect").textContent = "";
    }
  } finally {
    steering = false;
    if (again) {
      again = false;
      steer();
    }
  }
}

async function showSteered(set) {
  await safely(byId("dials-effect"), async () => {
    const started = performance.now(), found = await ask("/steer", { set }, "steer");
    const own = new Set(answer.after.map((entry) => String(entry.id)));
    for (const entry of found.after) if (entry.state === "new" && !own.has(String(entry.id))) entry.reason = "Brought in by the sliders.";
    showLists(found);
    byId("dials-effect").textContent = `Re-ranked in ${Math.round(performance.now() - started)} ms. Nothing is kept; the command below keeps it with --keep.`;
    tellCommand(found.command);
  });
}

function reset() {
  for (const slider of byId("dials").querySelectorAll("input")) {
    slider.value = slider.dataset.own;
    slider.parentNode.querySelector("output").textContent = signed(Number(slider.value));
  }
  byId("dials-effect").textContent = "";
  showLists(answer);
  tellCommand(answer.command);
}

// Ids that begin with a random number; where ids are text, users whose lists change most.
async function anyone() {
  const others = (users) => users.filter((user) => String(user) !== String(state.user));
  const digits = String(1 + Math.floor(99 * Math.random())), found = await get(ofRun(state.run, "/search"), { q: digits }, "anyone");
  let users = others(found.users);
  if (!users.length) users = others((await get(ofRun(state.run, "/segment"), { segment: "everyone", ...state.shown() }, "anyone")).users.map((one) => one.user));
  if (users.length) state.openUser(users[Math.floor(users.length * Math.random())]);
  else state.openUser(state.summary.example_user);
}
