// Charts of a reproduction: lines, points, bars, areas, spans, rows, heat maps.
document.querySelectorAll("[data-height]").forEach((chart) => { chart.style.height = `${chart.dataset.height}px`; });
const bars = (one, scores, chart, way) => {
  const [low, high] = chart.bounds || [-Infinity, Infinity];
  return {
    type: "data", symmetric: false, visible: one.half.some((half) => half),
    array: one.half.map((half, at) => Math.max(0, Math.min(half || 0, high - scores[at]))),
    arrayminus: one.half.map((half, at) => Math.max(0, Math.min(half || 0, scores[at] - low))),
    color: colourOf(one.style), thickness: 1.2, width: 3, ...way,
  };
};
const shape = (one, size) => {
  const filled = marker(one.style, size);
  return one.hollow
    ? { ...filled, symbol: "circle-open", line: { width: 2, color: colourOf(one.style) } }
    : { ...filled, line: { width: 1, color: colour("paper") } };
};
const hover = (one, text) => ({
  name: escaped(one.name), text: one.texts.map((told) => (told ? `<br>${escaped(told)}` : "")),
  hovertemplate: `%{fullData.name}<br>${text}%{text}<extra></extra>`,
});

const drawLines = (one, chart) => ({
  x: chart.kind === "category" ? one.x : one.x.map(Number), y: one.y, mode: chart.mark === "lines" ? "lines+markers" : "markers",
  line: lineOf(one.style), marker: shape(one, chart.mark === "lines" ? 8 : 9), cliponaxis: false,
  error_y: bars(one, one.y, chart), ...hover(one, "%{x}: %{y:.4~g}"),
});
const pairName = (name) => escaped(name).replace(" → ", "<br>→ ");
const TRACES = {
  lines: drawLines,
  points: drawLines,
  spans: (one) => ({
    x: one.x.flatMap((year, at) => (at % 2 ? [year, null] : [year])), y: one.y.flatMap((score, at) => (at % 2 ? [score, null] : [score])),
    mode: "lines+markers", line: lineOf(one.style), marker: shape(one, 9), cliponaxis: false, name: escaped(one.name),
    text: one.texts.flatMap((told, at) => (at % 2 ? [escaped(told), ""] : [escaped(told)])),
    hovertemplate: "%{text}: %{y:.1f}<extra></extra>",
  }),
  bars: (one, chart) => ({
    type: "bar", orientation: "h", y: one.x.map(pairName), x: one.y, marker: { color: colourOf(one.style) },
    error_x: bars(one, one.y, chart, { color: colour("ink") }),
    name: escaped(one.name), text: one.texts, textposition: "inside", insidetextanchor: "start", textangle: 0,
    hovertemplate: "%{y}<br>%{fullData.name}: %{x:.1f}<extra></extra>",
  }),
  areas: (one) => ({
    x: one.x, y: one.y, mode: "lines", fill: "tozeroy", line: { ...lineOf(one.style), shape: "spline" }, name: escaped(one.name), opacity: 0.7,
    hovertemplate: "%{fullData.name}<br>%{x:.2f}: %{y:.3f}<extra></extra>",
  }),
  rows: (one, chart) => ({
    x: one.x, y: one.y.map(escaped), mode: "markers", marker: shape(one, 11), cliponaxis: false, error_x: bars(one, one.x, chart), ...hover(one, "%{y}: %{x:.4~g}"),
  }),
};
const acrossOf = (chart) => {
  if (chart.mark === "bars") return axis({ nticks: 6, rangemode: "tozero", title: { text: escaped(chart.y), standoff: 6 } });
  const title = { text: escaped(chart.x), standoff: 6 };
  if (chart.kind === "year") return yearTicks(chart, title);
  if (chart.kind === "category") {
    const order = chart.values.length ? { categoryorder: "array", categoryarray: chart.values.map(escaped) } : {};
    return axis({ showgrid: false, title, type: "category", ...order });
  }
  const ticks = chart.values.length && chart.mark !== "rows" ? { tickvals: chart.values.map(Number), ticktext: chart.values } : { nticks: 8 };
  return axis({ showgrid: chart.mark === "rows", title, type: chart.kind, ...ticks });
};
const yearTicks = (chart, title) => {
  const years = chart.series.flatMap((one) => one.x);
  const few = Math.max(...years) - Math.min(...years) < 8;
  return axis({ showgrid: false, tickformat: "d", title, ...(few ? { dtick: 1 } : { nticks: 8 }) });
};
const upOf = (chart) => {
  if (chart.mark === "rows") return axis({ showgrid: false, type: "category", categoryorder: "array", categoryarray: [...chart.values].reverse().map(escaped) });
  if (chart.mark === "bars") return axis({ showgrid: false, type: "category", autorange: "reversed" });
  return axis({ nticks: 6, ...(chart.span ? { range: chart.span } : {}), ...(chart.mark === "areas" ? { rangemode: "tozero" } : {}) });
};

page.charts.forEach((chart, number) => {
  const target = byId(`chart-${number}`);
  drawWhenNear(target, () => plot(target, chart.series.map((one) => TRACES[chart.mark](one, chart)), layout({
    xaxis: acrossOf(chart), yaxis: upOf(chart), barmode: "group", bargap: 0.3, uniformtext: { minsize: 10, mode: "show" },
  })));
});
(page.heat || []).forEach((map, number) => {
  const target = byId(`heat-${number}`);
  const side = (name) => axis({ showgrid: false, type: "category", title: { text: escaped(name), standoff: 6 } });
  drawWhenNear(target, () => plot(target, [{
    type: "heatmap", x: map.xs, y: map.ys, z: map.scores, xgap: 1, ygap: 1, hoverongaps: false,
    colorscale: [[0, colour("line")], [1, colour("c2")]], colorbar: { thickness: 10, outlinewidth: 0, tickfont: { color: colour("soft") } },
    hovertemplate: `${escaped(map.x)} %{x}<br>${escaped(map.y)} %{y}: %{z:.1f}<extra></extra>`,
  }], layout({ xaxis: side(map.x), yaxis: side(map.y) })));
});
