"use strict";
// Every chart is drawn from the specification next to it; vega's interpreter needs no eval.
const ink = "currentColor";
const look = {
  background: "transparent",
  font: "system-ui, sans-serif",
  view: { stroke: "transparent" },
  axis: { labelColor: ink, titleColor: ink, tickColor: ink, domainColor: ink, gridColor: ink, gridOpacity: 0.12,
          domainOpacity: 0.4, tickOpacity: 0.4, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500 },
  legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, labelLimit: 260 },
};
for (const place of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(document.getElementById(place.id + "-spec").textContent);
  vegaEmbed(place, spec, { mode: "vega-lite", ast: true, actions: false, renderer: "svg", config: look })
    .catch((problem) => {
      place.textContent = "This chart could not be drawn; its table shows the same data.";
      console.error(problem);
    });
}
