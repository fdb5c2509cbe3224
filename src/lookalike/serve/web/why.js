// The overlay that shows which places of two pictures make them similar.

import { ask, fieldsOf, form, imageOf } from "./api.js";
import { $, nameOf } from "./cards.js";

const STOPS = ["rgb(60 20 120 / .1)", "rgb(123 35 130 / .26)", "rgb(214 60 70 / .43)", "rgb(250 130 30 / .59)", "rgb(255 205 60 / .75)"];
const FINE = 96; // the side of an overlay
const dialog = $("why");
let running = null;

$("why-close").addEventListener("click", () => dialog.close());
$("why-go").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // the backdrop
dialog.addEventListener("close", () => running?.abort());
$("strength").addEventListener("input", () => $("pair").style.setProperty("--strength", $("strength").value));

export async function showWhy(query, neighbour, href) {
  running?.abort();
  running = new AbortController();
  const { signal } = running, own = query.url ?? imageOf(query.item, "large");
  const sides = [[$("why-query"), own], [$("why-neighbour"), imageOf(neighbour.id, "large")]];
  for (const [side] of sides) side.replaceChildren();
  $("why-name").textContent = nameOf(neighbour);
  $("why-text").textContent = "Computing…";
  $("why-go").href = href;
  $("pair").setAttribute("aria-busy", "true");
  if (!dialog.open) dialog.showModal();
  try {
    const why = await ask("why", { ...form({ ...fieldsOf(query), neighbour: neighbour.id }), signal });
    const maps = [why.query, why.neighbour];
    await Promise.all(sides.map(([side, url], i) => fill(side, url, maps[i])));
    const cropped = Math.min(...why.query.box.slice(2)) < 1;
    $("why-text").textContent =
      `Their similarity is ${why.similarity.toFixed(2)}. Bright places contribute most.` +
      (cropped ? " The network sees what is inside the frame." : "");
    $("pair").removeAttribute("aria-busy");
  } catch (error) {
    if (!signal.aborted) $("why-text").textContent = error.message;
  }
}

// A picture under its overlay, which covers what the network sees of it.
async function fill(side, url, { shares, box }) {
  const image = new Image();
  image.src = url;
  await image.decode().catch(() => {
    throw new Error("The picture cannot be shown in this browser.");
  });
  const overlay = heat(shares);
  ["left", "top", "width", "height"].forEach((name, i) => (overlay.style[name] = `${100 * box[i]}%`));
  side.replaceChildren(image, overlay);
  const room = [side.parentElement.clientWidth / image.naturalWidth, (0.56 * innerHeight) / image.naturalHeight];
  side.style.width = `${image.naturalWidth * Math.min(...room, 12)}px`;
  side.setAttribute("aria-label", inWords(shares));
}

// For those who cannot see the colours.
function inWords(shares) {
  const values = shares.flat(), best = values.indexOf(Math.max(...values)), columns = shares[0].length;
  const third = (at, count, names) => names[Math.min(2, Math.floor((3 * (at + 0.5)) / count))];
  const row = third(Math.floor(best / columns), shares.length, ["top", "middle", "bottom"]);
  return `the ${row} ${third(best % columns, columns, ["left", "centre", "right"])} adds most`;
}

function sheet(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height }).getContext("2d", { willReadFrequently: true });
}

// Few cells as a smooth overlay: the browser interpolates between them, then colours are looked up.
function heat(shares) {
  const top = Math.max(1e-9, ...shares.flat()), cells = sheet(shares[0].length, shares.length);
  shares.forEach((row, y) => row.forEach((value, x) => {
    const level = 100 * Math.max(0, value / top);
    cells.fillStyle = `rgb(${level}% ${level}% ${level}%)`;
    cells.fillRect(x, y, 1, 1);
  }));
  const ramp = sheet(256, 1), gradient = ramp.createLinearGradient(0, 0, 256, 0);
  STOPS.forEach((colour, i) => gradient.addColorStop(i / (STOPS.length - 1), colour));
  ramp.fillStyle = gradient;
  ramp.fillRect(0, 0, 256, 1);
  const colours = ramp.getImageData(0, 0, 256, 1).data;
  const fine = sheet(FINE, FINE);
  fine.imageSmoothingQuality = "high";
  fine.drawImage(cells.canvas, 0, 0, FINE, FINE);
  const pixels = fine.getImageData(0, 0, FINE, FINE);
  for (let at = 0; at < pixels.data.length; at += 4) {
    const level = Math.round(255 * (pixels.data[at] / 255) ** 1.5);
    pixels.data.set(colours.subarray(4 * level, 4 * level + 4), at);
  }
  fine.putImageData(pixels, 0, 0);
  return fine.canvas;
}
