// What all parts of the page share: data, colours, charts, drawing when near.
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
  axis({ showgrid: false, title: { text: "epoch", standoff: 6 }, tickformat: "d", nticks: 8, ...(epochs <= 8 ? { dtick: 1 } : {}), rangemode: "tozero" });
// An axis upwards with its title; Plotly gives its ticks as many digits as they need.
const upAxis = (title, more) => axis({ title: { text: title, standoff: 6 }, nticks: 6, tickformat: "~g", ...more });
const methodNamed = (name) => page.methods.find((method) => method.name === name);
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;");

// Plotly sets some styles as attributes, which the page's Content-Security-Policy refuses, as it
// refuses those of markup that came from data. As properties they are what a script may set.
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name, value) {
  if (name === "style") this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

// Most of this page is plotly.js. It is kept as text, so that the page can be read at once, and
// is run when the browser has nothing else to do, or when the first chart needs it.
const loadPlotly = () => {
  if (window.Plotly) return;
  const script = document.createElement("script");
  script.textContent = byId("plotly").textContent;
  // the style sheet of its street maps, which no page here has, is left out where its id is taken
  for (const [, id] of script.textContent.matchAll(/getElementById\("([0-9a-f]{64})"\)/g)) {
    document.head.append(Object.assign(document.createElement("template"), { id }));
  }
  document.head.append(script);
};
const plot = (target, traces, shape) => {
  loadPlotly();
  Plotly.react(target, traces, shape, QUIET);
};
const whenIdle = window.requestIdleCallback || ((act) => setTimeout(act, 300));
window.addEventListener("load", () => whenIdle(loadPlotly));

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

// One block for each data set; what belongs to the others is hidden.
const eachBlock = (part, act) => page.blocks.forEach((block, on) => {
  const there = block[part];
  if (Array.isArray(there) ? there.length : there) act(there, on, block);
});
const marker = (method, size) => ({
  symbol: SYMBOLS[((method.colour ?? 0) + method.line) % SYMBOLS.length], size, color: colourOf(method),
});
// Intervals, as far as a score can go: from 0 to 100.
const errors = (halves, scores, method) => ({
  type: "data", symmetric: false, visible: halves.some((half) => half),
  array: halves.map((half, at) => 100 * Math.min(half || 0, 1 - scores[at])),
  arrayminus: halves.map((half, at) => 100 * Math.min(half || 0, scores[at])),
  color: colourOf(method), thickness: 1.2, width: 3,
});
