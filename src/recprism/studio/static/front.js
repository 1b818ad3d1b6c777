// The front as a chart. Vega's interpreter evaluates its expressions, so that no eval is needed.

import { gainIn, percent } from "./dom.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function specification(points, title) {
  const axis = { format: ".0%", grid: true, gridColor: colour("--line"), labelColor: colour("--ink"), titleColor: colour("--ink"), domainColor: colour("--line"), tickColor: colour("--line") };
  const x = { field: "loss", type: "quantitative", title: "accuracy lost (NDCG@10)", axis };
  const y = { field: "gain", type: "quantitative", title, axis };
  const tooltip = [{ field: "lost", title: "lost" }, { field: "most", title: "certified within" }, { field: "gained", title: "gained" }];
  return {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json", width: "container", height: 260, background: "transparent",
    config: { view: { stroke: null }, font: "system-ui, sans-serif" },
    data: { name: "points", values: points },
    layer: [
      { mark: { type: "line", color: colour("--soft"), strokeWidth: 1.5 }, encoding: { x, y, order: { field: "point" } } },
      { mark: { type: "rule", color: colour("--soft"), opacity: 0.6 }, encoding: { x, x2: { field: "within" }, y } },
      { mark: { type: "circle", size: 50, color: colour("--link"), opacity: 1 }, encoding: { x, y, tooltip } },
      { transform: [{ filter: "datum.here" }], mark: { type: "circle", size: 260, color: colour("--new"), opacity: 1 }, encoding: { x, y, tooltip } },
    ],
  };
}

export async function drawFront(node, path, here, title) {
  const points = path.points.filter((one) => one.loss !== null).map((one) => ({
    point: one.point, loss: one.loss, within: one.certified_within, gain: one.changes[path.metric], here: one.point === here,
    lost: percent(one.loss, 2), most: percent(one.certified_within, 2), gained: gainIn(path.metric, one.changes),
  }));
  if (!points.length) {
    node.textContent = "There are no held-out interactions in this run, so the accuracy that each stop costs is not known.";
    return;
  }
  const options = { ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true } };
  await window.vegaEmbed(node, specification(points, title), options);
}
