// A search field: hits appear while one types, and Enter takes the first.

import { button, byId, el, fill, titled } from "./dom.js";
import { Overtaken, Refused, get, ofRun } from "./api.js";

// id: of the form; kinds: "users", "items" or both; choose(kind, hit)
export function finder(id, kinds, runOf, choose) {
  const form = byId(id), input = form.querySelector("input"), hits = form.querySelector(".hits");
  let first = null;
  const take = (kind, hit) => {
    input.value = "";
    fill(hits);
    first = null;
    input.focus(); // the button of the hit is gone
    choose(kind, hit);
  };
  const look = async () => {
    const words = input.value.trim();
    first = null;
    if (!words) return fill(hits);
    try {
      const found = await get(ofRun(runOf(), "/search"), { q: words }, `search ${id}`);
      const all = kinds.flatMap((kind) => found[kind].map((hit) => [kind, hit]));
      first = all[0] ?? null;
      return fill(hits, ...(all.length ? all.map(([kind, hit]) => el("li", {}, button(kind === "users" ? `user ${hit}` : titled(hit), () => take(kind, hit))))
        : [el("li", { class: "soft" }, `Nothing matches “${words}”.`)]));
    } catch (error) {
      if (error instanceof Refused) return fill(hits, el("li", {}, error.message));
      if (error instanceof Overtaken) return undefined;
      throw error;
    }
  };
  input.addEventListener("input", look);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (first === null) await look();
    if (first !== null) take(...first);
  });
}
