// What all pages share: figures in the theme's colours, drawn when they come near; choices.
const root = document.documentElement;
const byId = (id) => document.getElementById(id);
const page = JSON.parse(byId("data").textContent);

// Figures have the colours of light; dark ones replace them.
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : darkSystem.matches);
const dark = new Map(Object.entries(page.dark));
const inTheme = (value) => JSON.parse(JSON.stringify(value), (_, one) => (isDark() && dark.get(one)) || one);

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
const plot = (target, { data, layout }) => {
  loadPlotly();
  Plotly.react(target, data, { ...layout, template: inTheme(page.theme) }, { displayModeBar: false, responsive: true });
};
const whenIdle = window.requestIdleCallback || ((act) => setTimeout(act, 300));
if (byId("plotly").textContent) window.addEventListener("load", () => whenIdle(loadPlotly));

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
Object.entries(page.figures).forEach(([id, figure]) => {
  const target = byId(id);
  target.style.height = `${figure.layout.height}px`;
  drawWhenNear(target, () => plot(target, inTheme(figure)));
});

const chosen = (group) => Number(document.querySelector(`input[name="${group}"]:checked`).value);
const onChoice = (group, act) => document.querySelectorAll(`input[name="${group}"]`)
  .forEach((input) => input.addEventListener("change", act));

// Choices that show one panel of several: methods of the gallery, tables, data sets.
new Set([...document.querySelectorAll(".panel")].map((panel) => panel.dataset.group)).forEach((group) =>
  onChoice(group, () => document.querySelectorAll(`.panel[data-group="${group}"]`).forEach((panel) => {
    panel.hidden = Number(panel.dataset.panel) !== chosen(group);
  })));
const showDataset = (number) => {
  document.querySelectorAll(".on").forEach((part) => { part.hidden = Number(part.dataset.on) !== number; });
  document.querySelectorAll("main > section").forEach((section) => {
    const parts = [...section.querySelectorAll(":scope > .on")];
    const empty = parts.every((part) => part.hidden || !part.children.length);
    section.hidden = parts.length > 0 && empty && !section.querySelector(":scope > .wide, :scope > .drawn");
  });
};
if (document.querySelector('input[name="dataset"]')) {
  onChoice("dataset", () => showDataset(chosen("dataset")));
  showDataset(0);
}

// Light or dark: as the system says, until the button is pressed.
const recolour = () => {
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
  const before = [...drawn];
  drawn.clear();
  before.forEach(([element, draw]) => drawWhenNear(element, draw));
};
byId("theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  recolour();
});
darkSystem.addEventListener("change", recolour);
recolour();
