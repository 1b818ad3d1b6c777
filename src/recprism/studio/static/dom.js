// Parts of the page. Text is inserted as text: nothing from a run can become markup.

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
}

export function show(node, visible) {
  node.hidden = !visible;
}

export function percent(share, digits = 1, signed = false) {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const shown = (100 * share).toFixed(digits).replace(/^-(0(?:\.0*)?)$/, "$1");
  return (signed && share > 0 ? "+" : "") + shown.replace("-", "−") + " %";
}

export function figure(value) {
  return value === null || value === undefined ? "–" : value.toFixed(4);
}

// rows: arrays of cells; a cell is text or a node; columns are aligned to the right from the second on
export function table(node, head, rows, classes = () => null) {
  const cell = (tag, value, at) => el(tag, { class: at ? "n" : null, scope: tag === "th" ? "col" : null }, value);
  fill(node, el("thead", {}, el("tr", {}, ...head.map((value, at) => cell("th", value, at)))),
    el("tbody", {}, ...rows.map((row, i) => el("tr", { class: classes(i) }, ...row.map((value, at) => cell("td", value, at))))));
}

const WORDS = {
  subtopic_coverage: "categories covered", alpha_ndcg: "coverage, best first (α-nDCG)", alpha_ndcg_relevant: "coverage by relevant items (α-nDCG)", err_ia: "relevant items for every interest (ERR-IA)", ilad_subtopics: "distance within lists", ilad: "distance within lists (vectors)",
  catalogue_coverage: "share of the catalogue shown", ndcg: "accuracy (NDCG)", recall: "accuracy (recall)",
  gini: "inequality of exposure (Gini)", exposure_entropy: "evenness of exposure (entropy)", shown_often: "items shown at least 5 times",
};

// The metrics of a goal such as sc+ilad or sc=2,ilad=1.
export const metricsOf = (goal) => goal.split(/[+,]/).map((part) => part.split("=")[0]);

// The weights of its metrics, 1 for those without one.
export const weightsOf = (goal) => goal.split(/[+,]/).map((part) => Number(part.split("=")[1] ?? 1));

export function inWords(goal) {
  const weights = weightsOf(goal), equal = weights.every((weight) => weight === weights[0]);
  return metricsOf(goal).map((name, at) => (WORDS[name.split("@")[0]] ?? name) + (equal ? "" : ` (weight ${weights[at]})`)).join(" and ");
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

// Copies a text; where the browser refuses, the node is selected.
export async function copy(text, node, status) {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "Copied.";
  } catch {
    if (node) getSelection().selectAllChildren(node);
    status.textContent = node ? "Selected; press Ctrl-C." : "Copy it from the address bar.";
  }
}

// The gain in a metric; that in catalogue coverage never without the change of Gini.
export function gainIn(metric, changes) {
  const gained = percent(changes[metric], 1, true), [name, k] = metric.split("@");
  return name === "catalogue_coverage" ? `${gained} (Gini ${percent(changes[`gini@${k}`], 1, true)})` : gained;
}

export const titled = (item) => (item.year ? `${item.title} (${item.year})` : item.title);

export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

export const button = (text, action, attributes = {}) => el("button", { type: "button", onclick: action, ...attributes }, text);

// The command that makes what is on the screen.
export function showCommand(text) {
  show(byId("command-bar"), Boolean(text));
  byId("command").textContent = text;
  byId("copied").textContent = "";
}

// Any table as CSV. A cell that a spreadsheet would run as a formula gets a leading quote, unless it is a number.
export function tableAsCsv(node) {
  const cell = (text) => `"${(/^[=+\-@\t\r]/.test(text) && !/^[+\-]?[\d.,]+( %)?( to [+\-]?[\d.,]+( %)?)?$/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  return [...node.rows].map((row) => [...row.cells].map((it) => cell(it.textContent.trim().replaceAll("−", "-"))).join(",")).join("\r\n");
}

export function download(name, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

// A sentence of the library: commands are between backticks.
export function spoken(text) {
  return text.split("`").map((part, at) => (at % 2 ? el("code", {}, part) : part));
}
