// The overlay that shows which places of two pictures make them similar.

import * as api from "./api.js";
import { nameOf } from "./cards.js";

const $ = (id) => document.getElementById(id);
const STOPS = [[60, 20, 120], [123, 35, 130], [214, 60, 70], [250, 130, 30], [255, 205, 60]];
const FINE = 96;

let shown = null; // {pictures: [image, image], maps: [map, map]}
let running = null;

export function prepareWhy(hrefOf) {
  const dialog = $("why");
  $("why-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // the backdrop
  });
  dialog.addEventListener("close", () => running?.abort());
  $("why-go").addEventListener("click", () => dialog.close());
  $("strength").addEventListener("input", draw);

  return async function open(asking, neighbour) {
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    shown = null;
    for (const id of ["why-query", "why-neighbour"]) $(id).width = $(id).height = 0;
    $("why-name").textContent = `${nameOf(neighbour)} · ${neighbour.similarity.toFixed(2)}`;
    $("why-text").textContent = "Computing…";
    $("pair").setAttribute("aria-busy", "true");
    $("why-go").href = hrefOf(neighbour.id);
    if (!dialog.open) dialog.showModal();
    try {
      const [found, left, right] = await Promise.all([
        api.why(asking, neighbour.id, signal),
        picture(asking.file ? asking.url : api.imageOf(asking.item, "large")),
        picture(api.imageOf(neighbour.id, "large")),
      ]);
      if (signal.aborted) return;
      shown = { pictures: [left, right], maps: [found.query, found.neighbour] };
      $("why-text").textContent =
        `Their similarity is ${found.similarity.toFixed(2)}. Bright places contribute most.` +
        (Math.min(found.query.box[2], found.query.box[3]) < 1 ? " The network sees what is inside the frame." : "");
      $("why-query").setAttribute("aria-label", `Query: ${where(found.query)}`);
      $("why-neighbour").setAttribute("aria-label", `${nameOf(neighbour)}: ${where(found.neighbour)}`);
      draw();
    } catch (error) {
      if (error.name !== "AbortError") $("why-text").textContent = error.message;
    } finally {
      if (!signal.aborted) $("pair").removeAttribute("aria-busy");
    }
  };
}

function picture(url) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("The picture cannot be shown in this browser."));
    image.src = url;
  });
}

// In words, for those who cannot see the colours.
function where(map) {
  const rows = map.shares.length, columns = map.shares[0].length;
  let best = -Infinity, row = 0, column = 0;
  map.shares.forEach((line, r) => line.forEach((value, c) => {
    if (value > best) [best, row, column] = [value, r, c];
  }));
  const third = (at, count, names) => names[Math.min(2, Math.floor((3 * (at + 0.5)) / count))];
  const place = `${third(row, rows, ["top", "middle", "bottom"])} ${third(column, columns, ["left", "centre", "right"])}`;
  return `the ${place} adds most`;
}

function draw() {
  if (!shown) return;
  const strength = Number($("strength").value);
  ["why-query", "why-neighbour"].forEach((id, i) => paint($(id), shown.pictures[i], shown.maps[i], strength));
}

function paint(canvas, image, map, strength) {
  const enlarged = Math.max(1, Math.min(12, 480 / Math.max(image.naturalWidth, image.naturalHeight)));
  const shrunk = Math.min(1, 1024 / Math.max(image.naturalWidth, image.naturalHeight));
  canvas.width = Math.round(image.naturalWidth * enlarged * shrunk);
  canvas.height = Math.round(image.naturalHeight * enlarged * shrunk);
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = enlarged < 3;
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const [left, top, width, height] = map.box;
  const box = [left * canvas.width, top * canvas.height, width * canvas.width, height * canvas.height];
  context.globalAlpha = strength;
  context.imageSmoothingEnabled = true;
  context.imageSmoothingQuality = "high";
  context.drawImage(coloured(map.shares), ...box);
  context.fillStyle = "rgb(0 0 0 / 0.45)";
  context.beginPath();
  context.rect(0, 0, canvas.width, canvas.height);
  context.rect(...box);
  context.fill("evenodd");
  context.globalAlpha = 1;
  if (width < 1 || height < 1) {
    context.strokeStyle = "rgb(255 255 255 / 0.85)";
    context.lineWidth = Math.max(2, canvas.width / 300);
    context.strokeRect(...box);
  }
}

function coloured(shares) {
  const rows = shares.length, columns = shares[0].length;
  const values = new Float32Array(FINE * FINE);
  let top = 1e-9;
  for (let y = 0; y < FINE; y++) {
    for (let x = 0; x < FINE; x++) {
      const value = smooth(shares, ((y + 0.5) / FINE) * rows - 0.5, ((x + 0.5) / FINE) * columns - 0.5);
      values[y * FINE + x] = value;
      top = Math.max(top, value);
    }
  }
  const sheet = document.createElement("canvas");
  sheet.width = sheet.height = FINE;
  const context = sheet.getContext("2d");
  const pixels = context.createImageData(FINE, FINE);
  values.forEach((value, i) => {
    const level = Math.min(1, Math.max(0, value / top)) ** 1.5;
    const at = level * (STOPS.length - 1), low = Math.min(STOPS.length - 2, Math.floor(at)), part = at - low;
    for (let c = 0; c < 3; c++) pixels.data[4 * i + c] = STOPS[low][c] * (1 - part) + STOPS[low + 1][c] * part;
    pixels.data[4 * i + 3] = 255 * (0.1 + 0.65 * level);
  });
  context.putImageData(pixels, 0, 0);
  return sheet;
}

// Cubic B-spline: as smooth as a map of a few cells can look without making up detail.
function smooth(shares, y, x) {
  const rows = shares.length, columns = shares[0].length;
  const row = Math.floor(y), column = Math.floor(x);
  const down = weights(y - row), right = weights(x - column);
  let sum = 0;
  for (let i = 0; i < 4; i++) {
    for (let j = 0; j < 4; j++) {
      const r = Math.min(rows - 1, Math.max(0, row + i - 1)), c = Math.min(columns - 1, Math.max(0, column + j - 1));
      sum += down[i] * right[j] * shares[r][c];
    }
  }
  return sum;
}

function weights(t) {
  return [(1 - t) ** 3 / 6, (3 * t ** 3 - 6 * t ** 2 + 4) / 6, (-3 * t ** 3 + 3 * t ** 2 + 3 * t + 1) / 6, t ** 3 / 6];
}
