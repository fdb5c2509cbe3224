"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);

  // Colours live in the style sheet alone; a hidden element tells what they are right now.
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colourOf = (method) => colour(method.colour === null ? "bare" : `c${method.colour}`);

  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross"];
  const CLASS_SYMBOLS = ["circle", "diamond", "square", "triangle-up"];
  const DASHES = ["solid", "dash", "dot"];
  const QUIET = { displayModeBar: false, responsive: true, doubleClick: "reset" };
  const font = () => ({ family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("soft") });
  const axis = (more) => ({
    gridcolor: colour("line"), linecolor: colour("line"), zeroline: false, ticks: "",
    automargin: true, fixedrange: true, ...more,
  });
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: font(), showlegend: false,
    margin: { l: 8, r: 10, t: 8, b: 8 }, dragmode: false, hovermode: "closest",
    hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("soft"), font: { color: colour("ink") } },
    ...more,
  });
  const lineOf = (method) => ({ color: colourOf(method), width: 2, dash: DASHES[method.line % 3] });
  const epochAxis = (epochs) =>
    axis({ showgrid: false, title: { text: "epoch", standoff: 6 }, tickformat: "d", nticks: 8, ...(epochs <= 8 ? { dtick: 1 } : {}) });
  const methodNamed = (name) => page.methods.find((method) => method.name === name);
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

  // Most of this page is plotly.js. It is kept as text, so that the page can be read at once, and
  // is run when the browser has nothing else to do, or when the first chart needs it.
  const loadPlotly = () => {
    if (window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = byId("plotly").textContent;
    document.head.append(script);
  };
  const plot = (target, traces, shape) => {
    loadPlotly();
    Plotly.react(target, traces, shape, QUIET);
  };
  const whenIdle = window.requestIdleCallback || ((act) => setTimeout(act, 300));
  window.addEventListener("load", () => whenIdle(loadPlotly));

  const drawValidation = () => {
    const lines = page.curves.map((curve) => {
      const method = methodNamed(curve.name);
      return {
        x: curve.validated, y: curve.scores.map((score) => 100 * score), name: escaped(curve.name),
        mode: "lines+markers", line: lineOf(method), cliponaxis: false,
        marker: { symbol: SYMBOLS[method.colour], size: 7, color: colourOf(method) },
        hovertemplate: "%{fullData.name}<br>epoch %{x}: %{y:.1f}<extra></extra>",
      };
    });
    const tested = page.curves.filter((curve) => curve.validated.includes(curve.chosen_epoch));
    const rings = {
      x: tested.map((curve) => curve.chosen_epoch),
      y: tested.map((curve) => 100 * curve.scores[curve.validated.indexOf(curve.chosen_epoch)]),
      mode: "markers", hoverinfo: "skip", cliponaxis: false,
      marker: { symbol: "circle-open", size: 15, opacity: 1, color: colour("ink"), line: { width: 1.5 } },
    };
    const last = Math.max(0, ...page.curves.flatMap((curve) => curve.validated));
    plot("validation", [...lines, rings], layout({ xaxis: epochAxis(last), yaxis: axis({ nticks: 6 }) }));
  };

  const drawLosses = () => page.curves.forEach((curve, number) => {
    const method = methodNamed(curve.name);
    const line = {
      x: curve.epochs, y: curve.loss, mode: "lines+markers", line: lineOf(method), cliponaxis: false,
      marker: { symbol: SYMBOLS[method.colour], size: 6, color: colourOf(method) },
      hovertemplate: "epoch %{x}: %{y:.4g}<extra></extra>",
    };
    const last = Math.max(0, ...curve.epochs);
    plot(`loss${number}`, [line], layout({ xaxis: epochAxis(last), yaxis: axis({ nticks: 5 }) }));
  });

  // A part is drawn when it first comes near the screen, and again when the theme changes.
  const drawn = new Map();
  const drawWhenNear = (element, draw) => {
    const watcher = new IntersectionObserver((seen) => {
      if (seen.some((entry) => entry.isIntersecting)) {
        watcher.disconnect();
        drawn.set(element, draw);
        draw();
      }
    }, { rootMargin: "60px" });
    watcher.observe(element);
  };

  const chosen = (group) => Number(document.querySelector(`input[name="${group}"]:checked`).value);
  const onChoice = (group, act) => document.querySelectorAll(`input[name="${group}"]`)
    .forEach((input) => input.addEventListener("change", act));

  onChoice("gallery", () => document.querySelectorAll(".panel").forEach((panel) => {
    panel.hidden = Number(panel.dataset.panel) !== chosen("gallery");
  }));

  const { sheet, numbers, layouts, titles } = page.map;
  const showThumb = (element, point, side) => {
    const column = point % sheet.columns, row = Math.floor(point / sheet.columns);
    Object.assign(element.style, {
      width: `${side}px`, height: `${side}px`, backgroundImage: `url(${sheet.uri})`,
      backgroundSize: `${sheet.columns * side}px ${sheet.rows * side}px`,
      backgroundPosition: `${-column * side}px ${-row * side}px`,
      imageRendering: page.tiny ? "pixelated" : "auto",
    });
  };

  const plane = byId("plane"), hint = byId("hint"), select = byId("class");
  const single = () => (select.value === "" ? null : Number(select.value));
  let listening = false;

  const drawMap = () => {
    const method = page.methods[chosen("map")], flat = layouts[chosen("map")], only = single();
    const palette = Array.from({ length: page.classColours }, (_, number) => colour(`k${number}`));
    const faded = (number) => only !== null && number !== only;
    const points = {
      ...flat, mode: "markers", hoverinfo: "none", type: "scatter", cliponaxis: false,
      marker: {
        size: numbers.map((number) => (number === only ? 13 : 10)),
        color: numbers.map((number) => palette[number % palette.length]),
        symbol: numbers.map((number) => CLASS_SYMBOLS[Math.floor(number / palette.length) % CLASS_SYMBOLS.length]),
        opacity: numbers.map((number) => (faded(number) ? 0.12 : 0.92)),
        line: { width: 1, color: colour("raised") },
      },
    };
    const bare = axis({
      showgrid: false, showticklabels: false, range: [-1.06, 1.06], fixedrange: false, automargin: false,
    });
    // A finger must be able to scroll past the map, a mouse may zoom into it.
    const dragmode = matchMedia("(pointer: fine)").matches ? "zoom" : false;
    plot(plane, [points], layout({ xaxis: bare, yaxis: bare, dragmode, margin: { l: 0, r: 0, t: 0, b: 0 } }));
    plane.setAttribute("aria-label", `Map of test embeddings of ${method.name}`);
    if (!listening) {
      listening = true;
      plane.on("plotly_hover", ({ points: [point] }) => showHint(point));
      plane.on("plotly_unhover", () => { hint.hidden = true; });
    }
  };

  const showHint = (point) => {
    showThumb(hint.querySelector(".thumb"), point.pointNumber, 96);
    hint.querySelector(".text").textContent = titles[numbers[point.pointNumber]];
    hint.hidden = false;
    const { x0, x1, y0 } = point.bbox;
    const room = plane.clientWidth - hint.offsetWidth - 4;
    const besides = x1 + 10 <= room ? x1 + 10 : x0 - hint.offsetWidth - 10;
    hint.style.left = `${Math.max(4, Math.min(besides, room))}px`;
    hint.style.top = `${Math.max(4, Math.min(y0 - 40, plane.clientHeight - hint.offsetHeight - 4))}px`;
  };

  const showClass = () => {
    const only = single(), pictures = byId("class-pictures");
    pictures.replaceChildren();
    byId("class-title").textContent = only === null
      ? "Point at the map to see a picture; choose a class to single it out." : titles[only];
    numbers.forEach((number, point) => {
      if (number === only) showThumb(pictures.appendChild(Object.assign(document.createElement("span"), { className: "thumb" })), point, 64);
    });
    drawMap();
  };
  select.addEventListener("change", showClass);
  onChoice("map", () => { hint.hidden = true; drawMap(); });

  const darkSystem = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkSystem.matches);
  const recolour = () => {
    byId("theme").textContent = isDark() ? "Light" : "Dark";
    byId("theme").setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
    drawn.forEach((draw) => draw());
  };
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    recolour();
  });
  darkSystem.addEventListener("change", recolour);
  recolour();

  if (page.curves.length) {
    drawWhenNear(byId("validation"), drawValidation);
    drawWhenNear(byId("loss0"), drawLosses);
  }
  drawWhenNear(plane, drawMap);
})();
