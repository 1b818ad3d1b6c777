// Requests to the server. Only the latest answer to a request counts, and no answer for a run that the page has left.
// An error is one sentence.

const latest = new Map();
let visit = 0;

export class Refused extends Error {}
export class Overtaken extends Error {}

// A list gives one parameter for each of its values.
export function queryOf(parameters) {
  const pairs = Object.entries(parameters).flatMap(([name, value]) => (Array.isArray(value) ? value : [value]).map((one) => [name, one]));
  return new URLSearchParams(pairs.filter(([, value]) => value !== null && value !== undefined));
}

async function ask(method, path, parameters) {
  const query = queryOf(parameters);
  const response = await fetch(`/api${path}?${query}`, { method });
  const answer = await response.json();
  if (!response.ok) throw new Refused(typeof answer.detail === "string" ? answer.detail : "the server did not understand the request");
  return answer;
}

// The page turns to a run: answers that are still under way belong to another one.
export function turnTo() {
  visit += 1;
}

// An answer or error that comes too late does not count.
async function inTime(asking, isLate) {
  try {
    return await asking;
  } finally {
    if (isLate()) throw new Overtaken(); // replaces an answer or an error
  }
}

// about: the subject of the request; an answer is dropped if a later request has the same subject
export async function get(path, parameters = {}, about = path) {
  const mine = Symbol(about), asked = visit;
  latest.set(about, mine);
  return inTime(ask("GET", path, parameters), () => latest.get(about) !== mine || asked !== visit);
}

// method: POST or DELETE
export async function change(method, path) {
  const asked = visit;
  return inTime(ask(method, path, {}), () => asked !== visit);
}

export const ofRun = (run, rest = "") => `/runs/${encodeURIComponent(run)}${rest}`;
