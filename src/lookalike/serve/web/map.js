// The map: points that can be panned, zoomed, hovered, reached by keyboard and searched from.

import * as api from "./api.js";
import { readable } from "./cards.js";

const $ = (id) => document.getElementById(id);
const CLOSEST = 60; // the largest zoom
const PICTURES = 280; // with at most so many visible points, they become pictures
const KEPT = 400; // thumbnails in memory
const REACH = 16; // pixels within which a point is hit
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export function prepareMap({ hrefOf, go, say }) {
  const canvas = $("canvas"), sea = $("sea"), hint = $("hint");
  const context = canvas.getContext("2d");
  const view = { x: 0, y: 0, zoom: 1 };
  const reach = { x: 1, y: 1 }; // the extent of the points from the centre
  const pointers = new Map();
  const images = new Map();
  let points = null, chosen = -1, label = "", asked = null, moved = false, pinch = 0, waiting = false, timer = 0;

  // ---- places

  function scale() {
    return Math.min((canvas.clientWidth / 2 - 30) / reach.x, (canvas.clientHeight / 2 - 24) / reach.y) * view.zoom;
  }
  function place(i) {
    const s = scale();
    return [canvas.clientWidth / 2 + (points.x[i] - view.x) * s, canvas.clientHeight / 2 - (points.y[i] - view.y) * s];
  }
  function nearest(x, y, reach) {
    let best = -1, least = reach * reach;
    for (let i = 0; points && i < points.ids.length; i++) {
      const [px, py] = place(i);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }
  function nameAt(i) {
    const name = points.label_names[points.labels[i]];
    return name ? readable(name) : `picture ${points.ids[i]}`;
  }

  // ---- drawing

  function redraw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  }

  function draw() {
    const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    if (!points) return;
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
      (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    const seen = [];
    for (let i = 0; i < points.ids.length; i++) {
      const [x, y] = place(i);
      if (x > -40 && y > -40 && x < width + 40 && y < height + 40) seen.push([i, x, y]);
    }
    const wanted = label === "" ? -2 : points.label_names.indexOf(label);
    const bright = seen.filter(([i]) => wanted === -2 || points.labels[i] === wanted);
    const pictures = bright.length <= PICTURES;
    const radius = Math.min(6, (points.ids.length > 1500 ? 2.4 : 3.4) * Math.sqrt(view.zoom));
    if (wanted !== -2) {
      context.fillStyle = dark ? "rgb(255 255 255 / .13)" : "rgb(0 0 0 / .12)";
      for (const [i, x, y] of seen) if (points.labels[i] !== wanted) dot(x, y, radius);
    }
    const side = Math.min(84, 22 + 3 * Math.sqrt(view.zoom) + 1400 / (bright.length + 20));
    for (const [i, x, y] of bright) {
      const image = pictures ? pictureOf(points.ids[i]) : null;
      const colour = points.labels[i] < 0 ? (dark ? "#9aa0a7" : "#6d737b") : hue(points.labels[i], dark);
      if (image) {
        framed(image, x, y, side, colour);
      } else {
        context.fillStyle = colour;
        dot(x, y, radius);
      }
    }
    if (asked !== null) mark(points.ids.indexOf(asked), dark, 3);
    mark(chosen, dark, 2);
    canvas.dataset.pictures = pictures ? bright.length : 0;
  }

  function dot(x, y, radius) {
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fill();
  }
  function hue(number, dark) {
    return `oklch(${dark ? 0.74 : 0.58} 0.15 ${(number * 137.508 + 30) % 360})`;
  }
  function framed(image, x, y, side, colour) {
    const short = Math.min(image.naturalWidth, image.naturalHeight);
    context.save();
    context.beginPath();
    context.roundRect(x - side / 2, y - side / 2, side, side, 6);
    context.clip();
    context.drawImage(image, (image.naturalWidth - short) / 2, (image.naturalHeight - short) / 2, short, short, x - side / 2, y - side / 2, side, side);
    context.restore();
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.beginPath();
    context.roundRect(x - side / 2, y - side / 2, side, side, 6);
    context.stroke();
  }
  function mark(i, dark, width) {
    if (i < 0) return;
    const [x, y] = place(i);
    context.strokeStyle = dark ? "#fff" : "#14181c";
    context.lineWidth = width;
    context.beginPath();
    context.arc(x, y, 11, 0, 7);
    context.stroke();
  }
  function pictureOf(id) {
    let image = images.get(id);
    if (!image) {
      image = new Image();
      image.onload = redraw;
      image.src = api.imageOf(id, "tiny");
      images.set(id, image);
      if (images.size > KEPT) images.delete(images.keys().next().value);
    }
    return image.complete && image.naturalWidth ? image : null;
  }

  // ---- choosing

  function choose(i, { tapped = false, spoken = false } = {}) {
    chosen = i;
    canvas.classList.toggle("on", i >= 0);
    hint.hidden = i < 0;
    hint.classList.toggle("tapped", tapped);
    if (i >= 0) {
      const [x, y] = place(i), id = points.ids[i];
      $("hint-text").textContent = nameAt(i);
      $("hint-image").src = api.imageOf(id, "small");
      hint.href = hrefOf(id);
      hint.dataset.id = id;
      const width = hint.offsetWidth, height = hint.offsetHeight;
      const left = x + 18 + width > sea.clientWidth ? x - 18 - width : x + 18;
      hint.style.left = `${Math.max(4, Math.min(left, sea.clientWidth - width - 4))}px`;
      hint.style.top = `${Math.max(4, Math.min(y - height / 2, sea.clientHeight - height - 4))}px`;
      if (spoken) say(`${nameAt(i)}. Enter searches from it.`);
    }
    redraw();
  }

  function walk(right, up) {
    if (!points?.ids.length) return;
    if (chosen < 0) {
      choose(nearest(canvas.clientWidth / 2, canvas.clientHeight / 2, Infinity), { spoken: true });
      return;
    }
    const [x, y] = place(chosen);
    const wanted = label === "" ? -2 : points.label_names.indexOf(label);
    let best = -1, least = Infinity;
    for (let i = 0; i < points.ids.length; i++) {
      if (i === chosen || (wanted !== -2 && points.labels[i] !== wanted)) continue;
      const [px, py] = place(i);
      const along = (px - x) * right - (py - y) * up, across = Math.abs((px - x) * up + (py - y) * right);
      if (along <= 0 || across > 2 * along) continue;
      const cost = along + 2 * across;
      if (cost < least) [best, least] = [i, cost];
    }
    if (best < 0) return;
    const [px, py] = place(best), s = scale(), margin = 60;
    if (px < margin || px > canvas.clientWidth - margin) view.x += (px - canvas.clientWidth / 2) / s;
    if (py < margin || py > canvas.clientHeight - margin) view.y -= (py - canvas.clientHeight / 2) / s;
    choose(best, { spoken: true });
  }

  // ---- moving

  function zoomAt(x, y, factor) {
    const before = scale();
    view.zoom = Math.max(1, Math.min(CLOSEST, view.zoom * factor));
    const after = scale();
    const dx = x - canvas.clientWidth / 2, dy = y - canvas.clientHeight / 2;
    view.x += dx / before - dx / after;
    view.y -= dy / before - dy / after;
    keepInside();
    choose(chosen);
  }
  function zoomMiddle(factor) {
    const [x, y] = chosen >= 0 ? place(chosen) : [canvas.clientWidth / 2, canvas.clientHeight / 2];
    zoomAt(x, y, factor);
  }
  function keepInside() {
    view.x = Math.max(-1.1, Math.min(1.1, view.x));
    view.y = Math.max(-1.1, Math.min(1.1, view.y));
  }
  function whole() {
    Object.assign(view, { x: 0, y: 0, zoom: 1 });
    choose(-1);
  }

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomAt(event.offsetX, event.offsetY, Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    moved = pointers.size > 1;
    pinch = apart();
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) {
      if (event.pointerType !== "touch") choose(nearest(event.offsetX, event.offsetY, REACH));
      return;
    }
    const dx = event.offsetX - last[0], dy = event.offsetY - last[1];
    if (!moved && Math.hypot(dx, dy) < 5) return;
    moved = true;
    canvas.classList.add("dragging");
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    const share = 1 / pointers.size;
    view.x -= (dx * share) / scale();
    view.y += (dy * share) / scale();
    keepInside();
    if (pointers.size === 2) {
      const now = apart();
      const [[ax, ay], [bx, by]] = [...pointers.values()];
      if (pinch) zoomAt((ax + bx) / 2, (ay + by) / 2, now / pinch);
      pinch = now;
    }
    choose(-1);
  });
  function apart() {
    if (pointers.size !== 2) return 0;
    const [[ax, ay], [bx, by]] = [...pointers.values()];
    return Math.hypot(ax - bx, ay - by);
  }
  function lift(event) {
    if (!pointers.delete(event.pointerId)) return;
    canvas.classList.remove("dragging");
    pinch = 0;
    if (moved || event.type !== "pointerup") return;
    const touch = event.pointerType === "touch";
    const hit = nearest(event.offsetX, event.offsetY, touch ? 28 : REACH);
    if (hit >= 0 && (!touch || hit === chosen)) go(points.ids[hit]);
    else choose(hit, { tapped: touch });
  }
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch" && !pointers.size) choose(-1);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = {
      ArrowLeft: () => walk(-1, 0),
      ArrowRight: () => walk(1, 0),
      ArrowUp: () => walk(0, 1),
      ArrowDown: () => walk(0, -1),
      "+": () => zoomMiddle(1.5),
      "=": () => zoomMiddle(1.5),
      "-": () => zoomMiddle(1 / 1.5),
      0: whole,
      Escape: () => choose(-1),
      Enter: () => chosen >= 0 && go(points.ids[chosen]),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  $("zoom-in").addEventListener("click", () => zoomMiddle(1.6));
  $("zoom-out").addEventListener("click", () => zoomMiddle(1 / 1.6));
  $("zoom-all").addEventListener("click", whole);
  hint.addEventListener("click", (event) => {
    event.preventDefault();
    go(Number(hint.dataset.id));
  });
  new ResizeObserver(() => choose(-1)).observe(sea);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // ---- from the server

  function tell() {
    const count = points.ids.length;
    const part = count < points.total ? `${count.toLocaleString("en")} of ${points.total.toLocaleString("en")} pictures, drawn at random` : `${count.toLocaleString("en")} pictures`;
    $("map-note").textContent = count
      ? `${part}: near each other where they look alike${points.labels.some((l) => l >= 0) ? ", one colour per label" : ""}.` +
        (points.final ? " Distances between far groups mean little." : " A better map is being drawn…")
      : "There are no pictures in this index yet.";
    canvas.setAttribute("aria-label", `Map of ${part}`);
    canvas.dataset.method = points.method;
  }

  function glide(next) {
    const former = points;
    points = next;
    const farthest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0.05);
    Object.assign(reach, { x: farthest(next.x), y: farthest(next.y) });
    if (calm.matches || !former || former.ids.length !== next.ids.length) return redraw();
    const [x, y] = [next.x, next.y], start = performance.now();
    points = { ...next, x: [...former.x], y: [...former.y] };
    const moving = points;
    (function step(now) {
      if (points !== moving) return;
      const t = Math.min(1, (now - start) / 900), ease = t * t * (3 - 2 * t);
      for (let i = 0; i < x.length; i++) {
        moving.x[i] = former.x[i] + ease * (x[i] - former.x[i]);
        moving.y[i] = former.y[i] + ease * (y[i] - former.y[i]);
      }
      draw();
      if (t < 1) requestAnimationFrame(step);
    })(start);
  }

  async function load() {
    clearTimeout(timer);
    if (points?.final) return;
    $("sea-busy").hidden = Boolean(points);
    const next = await api.map();
    $("sea-busy").hidden = true;
    if (!points || next.method !== points.method || next.final !== points.final) {
      choose(-1);
      glide(next);
      tell();
    }
    if (!next.final && !$("map").hidden) timer = setTimeout(() => load().catch(() => {}), 1500);
  }

  return {
    async show(name, item) {
      label = name;
      asked = item;
      choose(-1);
      await load();
      redraw();
    },
    hide() {
      clearTimeout(timer);
      choose(-1);
    },
  };
}
