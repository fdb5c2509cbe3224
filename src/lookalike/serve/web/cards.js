// Pictures in a grid: links that search from them, arrow keys that move between them.

import { imageOf } from "./api.js";

export const $ = (id) => document.getElementById(id);

// Folders often have underscores where people write spaces.
export const readable = (label) => label.replaceAll("_", " ");
export const nameOf = (item) => (item.label ? readable(item.label) : item.path.split("/").pop());

// Long names may break after underscores and dots.
export const breakable = (text) => text.split(/(?<=[_.\-/])/).flatMap((part) => [part, document.createElement("wbr")]);

// What the index knows of a picture, as terms and values; addresses are links.
export function facts(metadata) {
  return Object.entries(metadata).filter(([, value]) => value !== "").flatMap(([name, value]) => {
    const term = document.createElement("dt"), description = document.createElement("dd");
    term.textContent = name;
    description.textContent = value;
    if (/^https?:\/\/\S+$/.test(value)) {
      const link = document.createElement("a");
      Object.assign(link, { href: value, target: "_blank", rel: "noopener noreferrer" });
      link.textContent = value.replace(/^https?:\/\/(www\.)?/, "");
      description.replaceChildren(link);
    }
    return [term, description];
  });
}

export function card(item, href, { same = false, why = false } = {}) {
  const entry = $("card").content.firstElementChild.cloneNode(true);
  const part = (name) => entry.querySelector(name);
  const name = nameOf(item);
  entry.dataset.id = item.id;
  entry.item = item;
  Object.assign(part("a"), { href, title: item.path });
  Object.assign(part("img"), { src: imageOf(item.id, "small"), alt: `${name}, ${item.path}` });
  part(".name").prepend(...breakable(name));
  part(".facts").append(...facts(item.metadata));
  entry.classList.toggle("same", same);
  if (!same) part(".name .unseen").remove();
  if (!why) part(".ask-why").remove();
  else part(".ask-why").setAttribute("aria-label", `Why is ${name} similar?`);
  if (item.similarity === undefined) {
    for (const one of [".measure", ".mark-pair"]) part(one).remove();
    return entry;
  }
  entry.dataset.similarity = item.similarity;
  part(".number").append(item.similarity.toFixed(2));
  part(".fill").style.width = `${100 * Math.min(1, Math.max(0, item.similarity))}%`;
  for (const button of entry.querySelectorAll(".mark")) button.setAttribute("aria-label", `${name} is ${button.value}`);
  return entry;
}

// Events of pictures do not bubble, but they can be captured.
addEventListener("error", ({ target }) => target.closest?.(".card")?.classList.add("gone"), true);
addEventListener("load", ({ target }) => {
  target.classList?.toggle("tiny", Math.max(target.naturalWidth, target.naturalHeight) <= 64);
}, true);

// Arrow keys move the focus from picture to picture, as they are placed in the grid.
addEventListener("keydown", (event) => {
  const grid = event.target.closest?.(".grid");
  if (!grid || event.ctrlKey || event.metaKey || event.altKey) return;
  const columns = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
  const links = [...grid.querySelectorAll(".card:not([hidden]) > a")];
  const next = links[links.indexOf(event.target.closest(".card").querySelector("a")) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
});
