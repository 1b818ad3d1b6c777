// One item: who sees it before and after, and why.

import { button, byId, counted, el, fill, show, showCommand, table, titled } from "./dom.js";
import { get, ofRun } from "./api.js";
import { finder } from "./find.js";

let state = null;

export function begin(shared) {
  state = shared;
  finder("find-item", ["items"], () => state.run, (_, item) => state.openItem(item.id));
}

export function leave() {
  for (const id of ["item-facts", "item-users", "item-reasons"]) fill(byId(id));
  byId("item-title").textContent = "Who sees an item?";
}

export async function open() {
  showCommand("");
  state.tellLists(false);
  if (state.item === null) return;
  const about = { item: state.item, ...state.shown() }, found = await get(ofRun(state.run, "/item"), about, "item");
  byId("item-title").textContent = titled(found.item);
  fill(byId("item-facts"), el("b", {}, `In ${counted(found.lists_after, "list")} after, in ${found.lists_before.toLocaleString("en")} before`), `, of ${found.users.toLocaleString("en")}. ${found.item.categories.join(", ")}`);
  const who = (title, users, n) => (n ? el("div", {}, el("h3", {}, `${title}: ${counted(n, "user")}`), el("ul", { class: "hits" }, ...users.map((user) => el("li", {}, button(`user ${user}`, () => state.openUser(user)))))) : null);
  fill(byId("item-users"), who("It is new for", found.gained, found.n_gained), who("It left the list of", found.lost, found.n_lost), who("It stays for", found.kept, found.n_kept));
  table(byId("item-reasons"), [], []);
  const why = await get(ofRun(state.run, "/item/reasons"), about, "item reasons");
  show(byId("item-why"), why.reasons.length > 0);
  byId("item-asked").textContent = `The strongest reason in ${counted(why.asked, "list")} that gained it.`;
  table(byId("item-reasons"), ["reason", "lists"], why.reasons.map((one) => [one.reason, String(one.lists)]));
}
