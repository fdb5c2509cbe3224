// The map: points that can be panned, zoomed, hovered, reached by keyboard and searched from.

import { ask, imageOf } from "./api.js";
import { $, readable } from "./cards.js";

const CLOSEST = 60; // the largest zoom
const PICTURES = 280; // with at most so many visible points, they become pictures
const KEPT = 400; // thumbnails in memory
const REACH = 16; // pixels within which a point is hit, and by a finger:
const FINGER = 28;
const canvas = $("canvas"), hint = $("hint"), context = canvas.getContext("2d");
const view = { x: 0, y: 0, zoom: 1 };
const extent = { x: 1, y: 1 }; // of the points from the centre
const pointers = new Map(); // that are down -> where
const images = new Map();
let points = null, chosen = -1, label = "", asked = null, moved = false, frame = 0, timer = 0, page;

export function prepareMap(given) {
  page = given; // {hrefOf, say, go}
}

export async function showMap(name, item) {
  [label, asked] = [name, item];
  choose(-1);
  await load();
}

export function hideMap() {
  clearTimeout(timer);
  choose(-1);
}

async function load() {
  clearTimeout(timer);
  if (!points?.final) {
    $("sea-busy").hidden = Boolean(points);
    points = await ask("map");
    $("sea-busy").hidden = true;
    for (const axis of ["x", "y"]) extent[axis] = Math.max(0.05, ...points[axis].map(Math.abs));
    const count = points.ids.length, part = count < points.total ? ` of ${points.total.toLocaleString("en")} pictures, drawn at random` : " pictures";
    const coloured = points.labels.some((code) => code >= 0) ? ", one colour per label" : "";
    const state = points.final ? "Distances between far groups mean little." : "A better map is being drawn…";
    $("map-note").textContent = count
      ? `${count.toLocaleString("en")}${part}: near each other where they look alike${coloured}. ${state}`
      : "There are no pictures in this index yet.";
    canvas.ariaLabel = `Map of ${count.toLocaleString("en")}${part}`;
    canvas.dataset.method = points.method;
    if (!points.final) timer = setTimeout(() => load().catch(() => {}), 1500);
  }
  choose(-1);
}

// ---- places

const scale = () => Math.min((canvas.clientWidth / 2 - 30) / extent.x, (canvas.clientHeight / 2 - 24) / extent.y) * view.zoom;

function place(i) {
  const s = scale();
  return [canvas.clientWidth / 2 + (points.x[i] - view.x) * s, canvas.clientHeight / 2 - (points.y[i] - view.y) * s];
}

// The point with the least cost, given where it is; -1 if none costs less than `most`.
function cheapest(cost, most = Infinity) {
  let best = -1;
  for (let i = 0; i < (points?.ids.length ?? 0); i++) {
    const one = cost(...place(i), i);
    if (one < most) [best, most] = [i, one];
  }
  return best;
}
const nearest = (x, y, reach) => cheapest((px, py) => Math.hypot(px - x, py - y), reach);

const isBright = (i) => label === "" || points.label_names[points.labels[i]] === label;

// ---- drawing

function redraw() {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(draw);
}

function draw() {
  const ratio = devicePixelRatio || 1, { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !points) return;
  canvas.width = Math.round(width * ratio); // which clears it
  canvas.height = Math.round(height * ratio);
  context.scale(ratio, ratio);
  const ink = getComputedStyle(canvas).color;
  const seen = points.ids.map((_, i) => [i, ...place(i)]).filter(([, x, y]) => x > -40 && y > -40 && x < width + 40 && y < height + 40);
  const bright = seen.filter(([i]) => isBright(i)), pictures = bright.length <= PICTURES;
  const radius = Math.min(6, (points.ids.length > 1500 ? 2.4 : 3.4) * Math.sqrt(view.zoom));
  const side = Math.min(84, 22 + 3 * Math.sqrt(view.zoom) + 1400 / (bright.length + 20));
  context.globalAlpha = 0.13;
  context.fillStyle = ink;
  for (const [i, x, y] of seen) if (!isBright(i)) dot(x, y, radius);
  context.globalAlpha = 1;
  for (const [i, x, y] of bright) {
    const code = points.labels[i], image = pictures ? thumbnail(points.ids[i]) : null;
    context.fillStyle = context.strokeStyle = code < 0 ? "#868c93" : `oklch(0.65 0.15 ${(code * 137.508 + 30) % 360})`;
    if (image) framed(image, x, y, side);
    else dot(x, y, radius);
  }
  context.strokeStyle = ink;
  for (const [i, line] of [[points.ids.indexOf(asked), 3], [chosen, 2]]) {
    if (i < 0) continue;
    context.lineWidth = line;
    context.beginPath();
    context.arc(...place(i), 11, 0, 7);
    context.stroke();
  }
}

function dot(x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 7);
  context.fill();
}

function framed(image, x, y, side) {
  const { naturalWidth: width, naturalHeight: height } = image, short = Math.min(width, height);
  context.save();
  context.lineWidth = 4; // of which the half inside is painted over
  context.beginPath();
  context.roundRect(x - side / 2, y - side / 2, side, side, 6);
  context.stroke();
  context.clip();
  context.drawImage(image, (width - short) / 2, (height - short) / 2, short, short, x - side / 2, y - side / 2, side, side);
  context.restore();
}

function thumbnail(id) {
  if (!images.has(id)) {
    images.set(id, Object.assign(new Image(), { onload: redraw, src: imageOf(id, "tiny") }));
    if (images.size > KEPT) images.delete(images.keys().next().value);
  }
  const image = images.get(id);
  return image.complete && image.naturalWidth ? image : null;
}

// ---- choosing

function choose(i, { tapped = false, spoken = false } = {}) {
  chosen = i;
  canvas.classList.toggle("on", i >= 0);
  hint.hidden = i < 0;
  hint.classList.toggle("tapped", tapped);
  redraw();
  if (i < 0) return;
  const [x, y] = place(i), id = points.ids[i], called = points.label_names[points.labels[i]];
  $("hint-text").textContent = called ? readable(called) : `picture ${id}`;
  $("hint-image").src = imageOf(id, "small");
  hint.href = page.hrefOf(id);
  const { offsetWidth: width, offsetHeight: height } = hint, { clientWidth, clientHeight } = canvas;
  const left = x + 18 + width > clientWidth ? x - 18 - width : x + 18;
  hint.style.left = `${Math.max(4, Math.min(left, clientWidth - width - 4))}px`;
  hint.style.top = `${Math.max(4, Math.min(y - height / 2, clientHeight - height - 4))}px`;
  if (spoken) page.say(`${$("hint-text").textContent}. Enter searches from it.`);
}

// The next picture in a direction, which the view follows.
function walk(right, up) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const [x, y] = chosen < 0 ? [width / 2, height / 2] : place(chosen);
  const next = chosen < 0 ? nearest(x, y) : cheapest((px, py, i) => {
    const along = (px - x) * right - (py - y) * up, across = Math.abs((px - x) * up + (py - y) * right);
    return i === chosen || !isBright(i) || along <= 0 || across > 2 * along ? Infinity : along + 2 * across;
  });
  if (next < 0) return;
  const [px, py] = place(next), s = scale(), margin = 60;
  if (px < margin || px > width - margin) view.x += (px - width / 2) / s;
  if (py < margin || py > height - margin) view.y -= (py - height / 2) / s;
  choose(next, { spoken: true });
}

// ---- moving

function pan(dx, dy) {
  const s = scale(), inside = (value) => Math.max(-1.1, Math.min(1.1, value));
  view.x = inside(view.x - dx / s);
  view.y = inside(view.y + dy / s);
}

// What is at (x, y) stays there.
function zoom(factor, [x, y] = chosen < 0 ? [canvas.clientWidth / 2, canvas.clientHeight / 2] : place(chosen)) {
  const [dx, dy] = [x - canvas.clientWidth / 2, y - canvas.clientHeight / 2];
  pan(-dx, -dy);
  view.zoom = Math.max(1, Math.min(CLOSEST, view.zoom * factor));
  pan(dx, dy);
  choose(chosen);
}

function whole() {
  Object.assign(view, { x: 0, y: 0, zoom: 1 });
  choose(-1);
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), [event.offsetX, event.offsetY]);
}, { passive: false });
canvas.addEventListener("pointerdown", (event) => {
  if (event.button) return;
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  moved = pointers.size > 1;
});
canvas.addEventListener("pointermove", (event) => {
  const here = [event.offsetX, event.offsetY], last = pointers.get(event.pointerId);
  if (!last) return event.pointerType === "touch" || choose(nearest(...here, REACH));
  if (!moved && Math.hypot(here[0] - last[0], here[1] - last[1]) < 5) return;
  moved = true;
  canvas.classList.add("dragging");
  const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, where]) => where);
  const apart = (one) => Math.hypot(one[0] - other[0], one[1] - other[1]);
  if (other) zoom(apart(here) / Math.max(1, apart(last)), other); // a pinch: the other finger stays
  else pan(here[0] - last[0], here[1] - last[1]);
  pointers.set(event.pointerId, here);
  choose(-1);
});
for (const kind of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(kind, (event) => {
    if (!pointers.delete(event.pointerId)) return;
    canvas.classList.remove("dragging");
    if (moved || kind === "pointercancel") return;
    const touch = event.pointerType === "touch", hit = nearest(event.offsetX, event.offsetY, touch ? FINGER : REACH);
    if (hit >= 0 && (!touch || hit === chosen)) page.go(points.ids[hit]);
    else choose(hit, { tapped: touch });
  });
}
canvas.addEventListener("pointerleave", (event) => event.pointerType === "touch" || pointers.size || choose(-1));
canvas.addEventListener("keydown", (event) => {
  const keys = {
    ArrowLeft: () => walk(-1, 0), ArrowRight: () => walk(1, 0), ArrowUp: () => walk(0, 1), ArrowDown: () => walk(0, -1),
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: whole,
    Escape: () => choose(-1), Enter: () => chosen >= 0 && page.go(points.ids[chosen]),
  };
  if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
$("zoom-in").addEventListener("click", () => zoom(1.6));
$("zoom-out").addEventListener("click", () => zoom(1 / 1.6));
$("zoom-all").addEventListener("click", whole);
new ResizeObserver(() => choose(-1)).observe(canvas);
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
