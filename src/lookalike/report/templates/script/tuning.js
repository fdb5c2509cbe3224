// The trials of one method: by number, by parameter, in pairs, and what mattered.
eachBlock("tunings", (tunings, on) => {
  const methods = byId(`tuning-${on}`), pairs = byId(`pair-${on}`), slices = byId(`slices-${on}`);
  const contour = byId(`contour-${on}`), history = byId(`history-${on}`), importance = byId(`importance-${on}`);
  const current = () => tunings[Number(methods.value)];
  const scores = (tuning) => tuning.scores.map((score) => 100 * score);
  const ring = (x, y) => ({
    x: [x], y: [y], mode: "markers", hoverinfo: "skip", cliponaxis: false,
    marker: { symbol: "circle-open", size: 15, color: colour("ink"), line: { width: 1.5 } },
  });
  const dots = (tuning, x, y) => ({
    x, y, text: tuning.numbers.map((number, at) => `trial ${number}: ${(100 * tuning.scores[at]).toFixed(2)}`),
    mode: "markers", marker: { size: 8, color: colour("c0"), opacity: 0.75 }, cliponaxis: false,
    hovertemplate: "%{text}<br>%{x:.4~g}<extra></extra>",
  });

  const drawHistory = (tuning) => {
    const values = scores(tuning);
    const best = values.map((_, at) => Math.max(...values.slice(0, at + 1)));
    const line = { x: tuning.numbers, y: best, mode: "lines", line: { color: colour("c2"), width: 2, shape: "hv" }, hoverinfo: "skip" };
    const across = axis({ showgrid: false, title: { text: "trial", standoff: 6 }, tickformat: "d", ...(tuning.numbers.length <= 8 ? { dtick: 1 } : {}) });
    plot(history, [line, dots(tuning, tuning.numbers, values), ring(tuning.numbers[tuning.best], values[tuning.best])],
      layout({ xaxis: across, yaxis: upAxis("validation score, per cent") }));
  };

  const drawImportance = (tuning) => {
    const known = tuning.parameters.filter((one) => one.importance !== null).reverse();
    byId(`importance-box-${on}`).hidden = !known.length;
    if (!known.length) return;
    const bars = {
      type: "bar", orientation: "h", x: known.map((one) => 100 * one.importance), y: known.map((one) => escaped(one.name)),
      marker: { color: colour("c0") }, hovertemplate: "%{y}: %{x:.0f} %<extra></extra>",
    };
    plot(importance, [bars], layout({ xaxis: axis({ range: [0, 100], ticksuffix: " %", nticks: 5 }), yaxis: axis({ showgrid: false }), bargap: 0.4 }));
  };

  const drawSlices = (tuning) => {
    slices.replaceChildren();
    tuning.parameters.forEach((one) => {
      const box = slices.appendChild(document.createElement("div"));
      box.append(Object.assign(document.createElement("h4"), { textContent: one.name }));
      const chart = box.appendChild(Object.assign(document.createElement("div"), { className: "chart small" }));
      chart.setAttribute("role", "img");
      chart.setAttribute("aria-label", `Validation score by ${one.name}`);
      const kind = typeof one.values[0] === "string" ? "category" : one.log ? "log" : "linear";
      const across = axis({ showgrid: false, type: kind, nticks: 6, ...(kind === "log" ? { dtick: 1, exponentformat: "power" } : {}) });
      plot(chart, [dots(tuning, one.values, scores(tuning)), ring(one.values[tuning.best], scores(tuning)[tuning.best])],
        layout({ xaxis: across, yaxis: upAxis("score, %", { nticks: 4 }) }));
    });
  };

  const drawContour = () => {
    const tuning = current(), pair = tuning.contours[Number(pairs.value)];
    byId(`contour-box-${on}`).hidden = !pair;
    if (!pair) return;
    const one = (name) => tuning.parameters.find((parameter) => parameter.name === name);
    const sides = [one(pair.x), one(pair.y)];
    const across = (parameter) => axis({
      showgrid: false, title: { text: escaped(parameter.name), standoff: 6 }, type: parameter.log ? "log" : "linear",
      ...(parameter.log ? { dtick: 1, exponentformat: "power" } : { nticks: 6 }),
    });
    const field = {
      type: "contour", x: pair.xs, y: pair.ys, z: pair.scores.map((row) => row.map((score) => (score === null ? null : 100 * score))),
      colorscale: [[0, colour("raised")], [1, colour("c2")]], contours: { coloring: "heatmap" }, line: { width: 0.6, color: colour("line") },
      colorbar: { thickness: 10, outlinewidth: 0, tickfont: { color: colour("soft") } }, hoverinfo: "skip",
    };
    const trials = { ...dots(tuning, sides[0].values, sides[1].values), hovertemplate: "%{text}<extra></extra>" };
    trials.marker = { ...trials.marker, color: colour("ink"), size: 6 };
    plot(contour, [field, trials, ring(sides[0].values[tuning.best], sides[1].values[tuning.best])],
      layout({ xaxis: across(sides[0]), yaxis: across(sides[1]) }));
  };

  const draw = () => {
    const tuning = current();
    const lost = [[tuning.pruned, "given up early"], [tuning.failed, "failed"]].filter(([count]) => count);
    byId(`tuning-note-${on}`).textContent = [
      `${tuning.scores.length} trials complete`, ...lost.map(([count, word]) => `${count} ${word}`),
    ].join(", ") + "." + (tuning.errors.length ? ` Failures: ${tuning.errors.join("; ")}.` : "");
    drawHistory(tuning);
    drawImportance(tuning);
    drawSlices(tuning);
    drawContour();
  };
  const choose = () => {
    pairs.replaceChildren(...current().contours.map((pair, number) =>
      Object.assign(document.createElement("option"), { value: number, textContent: `${pair.x} and ${pair.y}` })));
    draw();
  };
  methods.addEventListener("change", choose);
  pairs.addEventListener("change", drawContour);
  drawWhenNear(history, () => (pairs.options.length || !current().contours.length ? draw() : choose()));
});
