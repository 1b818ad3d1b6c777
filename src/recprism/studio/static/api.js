// Questions to the server. Only the latest answer to a question counts, and none that was asked for a run that the page
// has left since; an error is one sentence.

const latest = new Map();
let visit = 0;

export class Refused extends Error {}
export class Overtaken extends Error {}

async function ask(method, path, parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined));
  const response = await fetch(`/api/runs${path}?${query}`, { method });
  const answer = await response.json();
  if (!response.ok) throw new Refused(typeof answer.detail === "string" ? answer.detail : "the server did not understand the question");
  return answer;
}

// The page turns to a run: answers that are still under way are for another one.
export function turnTo() {
  visit += 1;
}

// Answer or error: whatever comes back too late does not count.
async function inTime(asking, isLate) {
  try {
    return await asking;
  } finally {
    if (isLate()) throw new Overtaken(); // takes the place of an answer and of an error
  }
}

// about: what the question is about; what was overtaken by a later question about the same is dropped
export async function get(path, parameters = {}, about = path) {
  const mine = Symbol(about), asked = visit;
  latest.set(about, mine);
  return inTime(ask("GET", path, parameters), () => latest.get(about) !== mine || asked !== visit);
}

export async function post(path) {
  const asked = visit;
  return inTime(ask("POST", path, {}), () => asked !== visit);
}

export const ofRun = (run, rest = "") => `/${encodeURIComponent(run)}${rest}`;
