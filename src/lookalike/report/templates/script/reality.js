// What papers report for two old losses over the years, and what a fair test finds.
const yearAxis = (years) => axis({
  showgrid: false, tickformat: "d", title: { text: "year of the paper", standoff: 6 },
  ...(Math.max(...years) - Math.min(...years) < 8 ? { dtick: 1 } : {}),
});
const realityRange = ({ reported, tested }) => {
  const scores = [...reported, ...tested].map((one) => 100 * one.score);
  const room = 0.06 * (Math.max(...scores) - Math.min(...scores)) + 1;
  return [Math.max(0, Math.min(...scores) - room), Math.min(100, Math.max(...scores) + room)];
};

const drawReported = (reality, on) => {
  const traces = ["contrastive", "triplet"].map((loss, number) => {
    const mine = reality.reported.filter((one) => one.method === loss);
    return {
      x: mine.map((one) => one.year), y: mine.map((one) => 100 * one.score), text: mine.map((one) => escaped(one.paper)),
      name: loss, mode: "markers", cliponaxis: false,
      marker: { symbol: SYMBOLS[number], size: 9, color: colour(`c${number}`), opacity: 0.8 },
      hovertemplate: "%{fullData.name}, %{x}: %{y:.1f}<br>%{text}<extra></extra>",
    };
  });
  plot(`reported-${on}`, traces, layout({ xaxis: yearAxis(reality.reported.map((one) => one.year)), yaxis: axis({ nticks: 6, range: realityRange(reality) }) }));
};

const drawTested = (reality, on) => {
  const traces = reality.tested.map((one) => {
    const method = methodNamed(one.name);
    return {
      x: [one.year], y: [100 * one.score], name: escaped(one.name), mode: "markers", cliponaxis: false,
      marker: marker(method, 10), error_y: errors([one.half], [one.score], method),
      hovertemplate: "%{fullData.name}, %{x}: %{y:.1f}<extra></extra>",
    };
  });
  plot(`tested-${on}`, traces, layout({ xaxis: yearAxis(reality.tested.map((one) => one.year)), yaxis: axis({ nticks: 6, range: realityRange(reality) }) }));
};

eachBlock("reality", (reality, on) => {
  drawWhenNear(byId(`reported-${on}`), () => drawReported(reality, on));
  drawWhenNear(byId(`tested-${on}`), () => drawTested(reality, on));
});
