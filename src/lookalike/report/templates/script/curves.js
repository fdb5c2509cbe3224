// Training curves: the validation score in one chart, each loss in its own.
const drawValidation = (curves, on) => {
  const lines = curves.map((curve) => {
    const method = methodNamed(curve.name);
    return {
      x: curve.validated, y: curve.scores.map((score) => 100 * score), name: escaped(curve.name),
      mode: "lines+markers", line: lineOf(method), cliponaxis: false, marker: marker(method, 7),
      hovertemplate: "%{fullData.name}<br>epoch %{x}: %{y:.1f}<extra></extra>",
    };
  });
  const tested = curves.filter((curve) => curve.validated.includes(curve.chosen_epoch));
  const rings = {
    x: tested.map((curve) => curve.chosen_epoch),
    y: tested.map((curve) => 100 * curve.scores[curve.validated.indexOf(curve.chosen_epoch)]),
    mode: "markers", hoverinfo: "skip", cliponaxis: false,
    marker: { symbol: "circle-open", size: 15, opacity: 1, color: colour("ink"), line: { width: 1.5 } },
  };
  const last = Math.max(0, ...curves.flatMap((curve) => curve.validated));
  plot(`validation-${on}`, [...lines, rings], layout({ xaxis: epochAxis(last), yaxis: upAxis("validation score, per cent") }));
};

const drawLosses = (curves, on) => curves.forEach((curve, number) => {
  const method = methodNamed(curve.name);
  const line = {
    x: curve.epochs, y: curve.loss, mode: "lines+markers", line: lineOf(method), cliponaxis: false,
    marker: marker(method, 6), hovertemplate: "epoch %{x}: %{y:.4g}<extra></extra>",
  };
  const last = Math.max(0, ...curve.epochs);
  plot(`loss-${on}-${number}`, [line], layout({ xaxis: epochAxis(last), yaxis: upAxis("loss", { nticks: 5 }) }));
});

eachBlock("curves", (curves, on) => {
  drawWhenNear(byId(`validation-${on}`), () => drawValidation(curves, on));
  drawWhenNear(byId(`loss-${on}-0`), () => drawLosses(curves, on));
});
