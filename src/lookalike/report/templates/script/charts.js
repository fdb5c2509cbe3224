// Recall by k, and the score against size, density and spectral decay.
// Lines of many methods lie on one another: the first rows only, as points above their median at each k.
const MOST_LINES = 8;

const drawRecall = (all, on) => {
  const curves = all.slice(0, MOST_LINES);
  const median = (k) => {
    const scores = curves.filter((curve) => curve.ks.includes(k)).map((curve) => curve.scores[curve.ks.indexOf(k)]).sort((a, b) => a - b);
    return (scores[Math.floor((scores.length - 1) / 2)] + scores[Math.ceil((scores.length - 1) / 2)]) / 2;
  };
  const lines = curves.map((curve) => {
    const method = methodNamed(curve.name);
    return {
      x: curve.ks, y: curve.scores.map((score, at) => 100 * (score - median(curve.ks[at]))), name: escaped(curve.name), mode: "lines+markers",
      line: lineOf(method), marker: marker(method, 7), error_y: errors(curve.halves, curve.scores, method), cliponaxis: false,
      customdata: curve.scores.map((score) => 100 * score),
      hovertemplate: "%{fullData.name}<br>Recall@%{x}: %{customdata:.1f} (%{y:+.1f})<extra></extra>",
    };
  });
  const ks = [...new Set(curves.flatMap((curve) => curve.ks))].sort((a, b) => a - b);
  const across = axis({ type: "log", showgrid: false, tickvals: ks, ticktext: ks.map(String), title: { text: "k", standoff: 6 } });
  plot(`recall-${on}`, lines, layout({ xaxis: across, yaxis: upAxis("points above the median") }));
};

const drawScatter = (chart, target) => {
  const points = chart.points.map((point) => {
    const method = methodNamed(point.name);
    return {
      x: [point.x], y: [100 * point.y], name: escaped(point.name), mode: "markers", marker: marker(method, 11),
      error_y: errors([point.half], [point.y], method), cliponaxis: false,
      hovertemplate: `%{fullData.name}<br>%{x:.4~g}: %{y:.1f}<extra></extra>`,
    };
  });
  const values = [...new Set(chart.points.map((point) => point.x))].sort((a, b) => a - b);
  const ticks = chart.log ? { type: "log", tickvals: values, ticktext: values.map(String) } : { nticks: 6 };
  const across = axis({ showgrid: false, title: { text: chart.label, standoff: 6 }, ...ticks });
  plot(target, points, layout({ xaxis: across, yaxis: upAxis(`${page.metric}, per cent`) }));
};

eachBlock("recall", (curves, on) => drawWhenNear(byId(`recall-${on}`), () => drawRecall(curves, on)));
eachBlock("scatters", (charts, on) => charts.forEach((chart, number) => {
  const target = byId(`scatter-${on}-${number}`);
  drawWhenNear(target, () => drawScatter(chart, target));
}));
