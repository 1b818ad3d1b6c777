// Charts. Vega's interpreter evaluates its expressions, so that no eval is needed.

import { gainIn, percent } from "./dom.js";

const OPTIONS = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function framed(layers, values) {
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json", width: "container", height: 260, background: "transparent",
    config: { view: { stroke: null }, font: "system-ui, sans-serif", text: { color: colour("--ink"), font: "system-ui, sans-serif" } },
    data: { name: "points", values }, layer: layers,
  };
}

const axis = () => ({ format: ".1~%", grid: true, gridColor: colour("--line"), labelColor: colour("--ink"), titleColor: colour("--ink"), domainColor: colour("--line"), tickColor: colour("--line"), tickCount: 6 });
const share = (field, title) => ({ field, type: "quantitative", title, axis: axis() });

// A layer of its own points; none without any, because Vega complains about empty data.
const circles = (values, size, name, encoding) => (values.length ? [{ data: { values }, mark: { type: "circle", size, color: colour(name), opacity: 1 }, encoding }] : []);

export async function drawFront(node, path, here, title) {
  const points = path.points.filter((one) => one.loss !== null).map((one) => ({
    point: one.point, loss: -one.changes[path.cost], gain: one.changes[path.metric], here: one.point === here,
    lost: percent(-one.changes[path.cost], 2), most: percent(one.certified_within, 2), gained: gainIn(path.metric, one.changes),
  }));
  if (!points.length) {
    node.textContent = "There are no held-out interactions in this run, so the accuracy that each stop costs is not known.";
    return;
  }
  const encoding = { x: share("loss", "accuracy lost (NDCG@10, test part)"), y: share("gain", title), tooltip: [{ field: "lost", title: "lost" }, { field: "most", title: "certified within" }, { field: "gained", title: "gained" }] };
  const line = { mark: { type: "line", color: colour("--soft"), strokeWidth: 1.5 }, encoding: { x: encoding.x, y: encoding.y, order: { field: "point" } } };
  await window.vegaEmbed(node, framed([line, ...circles(points, 50, "--link", encoding), ...circles(points.filter((one) => one.here), 260, "--new", encoding)], points), OPTIONS);
}

// points: { name, cost, gain, best, test }; a result is best if no other of its test set is better in both
export async function drawResults(node, points, metric) {
  const encoding = { x: share("cost", "change of accuracy (NDCG@10)"), y: share("gain", `change: ${metric}`), tooltip: [{ field: "name", title: "result" }, { field: "test", title: "test set" }] };
  const words = { mark: { type: "text", dy: -12, limit: 160 }, encoding: { x: encoding.x, y: encoding.y, text: { field: "name" } } };
  await window.vegaEmbed(node, framed([...circles(points.filter((one) => !one.best), 90, "--soft", encoding), ...circles(points.filter((one) => one.best), 140, "--new", encoding), words], points), OPTIONS);
}

// days: { day, retained, low, high }; floor: the least share
export async function drawDays(node, days, floor) {
  const known = days.filter((one) => one.retained !== null).map((one) => ({ ...one, words: `${percent(one.retained)} (${percent(one.low)} to ${percent(one.high)})` }));
  if (!known.length) {
    node.textContent = "On no day is the gain of the rule clear of 0.";
    return;
  }
  const x = { field: "day", type: "ordinal", title: null, axis: { ...axis(), format: undefined, grid: false, labelAngle: -40 } };
  const y = { ...share("retained", "kept"), scale: { zero: false } }, tooltip = [{ field: "day" }, { field: "words", title: "kept" }];
  const band = { mark: { type: "rule", strokeWidth: 5, opacity: 0.35, color: colour("--link") }, encoding: { x, y: { ...y, field: "low" }, y2: { field: "high" }, tooltip } };
  const limit = { data: { values: [{ floor }] }, mark: { type: "rule", color: colour("--soft"), strokeDash: [6, 4] }, encoding: { y: { ...y, field: "floor" } } };
  await window.vegaEmbed(node, framed([band, limit, ...circles(known, 70, "--link", { x, y, tooltip })], known), OPTIONS);
}
