// The activity of a run: events, progress and the time left.

import { byId, duration, el, fill, show } from "./dom.js";
import { ofRun } from "./api.js";

let source = null;
const KEPT = 200;
const DOING = { training: "Training", searching: "Searching", stopped: "Stopped before its end at" };

export function watch(run, onEnd) {
  source?.close();
  fill(byId("events"));
  byId("event-count").textContent = "0";
  source = new EventSource(`/api${ofRun(run, "/events")}`);
  let count = 0, was = null;
  source.addEventListener("happened", (message) => {
    const { time, event, ...facts } = JSON.parse(message.data);
    const details = Object.entries(facts).filter(([, value]) => typeof value !== "object").map(([name, value]) => `${name} ${value}`).join(", ");
    const list = byId("events");
    list.prepend(el("li", {}, `${new Date(1000 * time).toLocaleTimeString()} ${event}${details ? `: ${details}` : ""}`));
    while (list.children.length > KEPT) list.lastChild.remove();
    byId("event-count").textContent = String(++count);
  });
  source.addEventListener("standing", (message) => {
    const now = JSON.parse(message.data);
    showStanding(now);
    if (was && was !== now.doing) onEnd();
    was = now.doing;
  });
}

function showStanding({ doing, done, total, seconds_left: left }) {
  const steps = byId("steps");
  show(steps, doing !== "nothing");
  if (doing === "nothing") {
    byId("standing").textContent = "Nothing is being trained or searched for in this run.";
    return;
  }
  steps.max = total ?? 1;
  steps.value = done;
  const of = total === null ? `step ${done}` : `step ${done} of ${total}`;
  const rest = left === null ? "" : `, at most ${duration(left)} left`;
  byId("standing").textContent = `${DOING[doing]} ${of}${rest}.`;
}
