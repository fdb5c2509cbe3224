// Pictures in a grid: links that search from them, arrow keys that move between them.

import { imageOf } from "./api.js";

export function nameOf(item) {
  return item.label ? readable(item.label) : item.path.split("/").pop();
}

// Folders often have underscores where people write spaces.
export function readable(label) {
  return label.replaceAll("_", " ");
}

// Long names may break after underscores and dots.
export function breakable(text) {
  return text.split(/(?<=[_.\-/])/).flatMap((part) => [part, document.createElement("wbr")]);
}

function node(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// What the index knows of a picture, as terms and values; addresses are links.
export function facts(metadata) {
  return Object.entries(metadata).filter(([, value]) => value !== "").flatMap(([name, value]) => {
    const description = node("dd");
    if (/^https?:\/\/\S+$/.test(value)) {
      const link = node("a", "", value.replace(/^https?:\/\/(www\.)?/, ""));
      link.href = value;
      link.target = "_blank";
      link.rel = "noopener noreferrer";
      description.append(link);
    } else {
      description.textContent = value;
    }
    return [node("dt", "", name), description];
  });
}

export function card(item, { href, onWhy, onMark, same } = {}) {
  const entry = node("li", "card");
  entry.dataset.id = item.id;
  const link = node("a");
  link.href = href;
  link.draggable = false;
  const shot = node("span", "shot");
  const image = node("img");
  image.alt = `${nameOf(item)}, ${item.path}`;
  image.loading = "lazy";
  image.decoding = "async";
  image.draggable = false;
  image.addEventListener("error", () => {
    image.classList.add("broken");
    entry.classList.add("gone");
  });
  image.addEventListener("load", () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) <= 64));
  image.src = imageOf(item.id, "small");
  shot.append(image);
  const caption = node("span", "caption");
  const name = node("span", "name");
  name.append(...breakable(nameOf(item)));
  caption.append(name);
  link.append(shot, caption);
  link.title = item.path;
  entry.append(link);
  if (item.similarity !== undefined) {
    entry.dataset.similarity = item.similarity;
    const measure = node("span", "measure");
    const track = node("span", "track");
    const fill = node("span", "fill");
    fill.style.width = `${100 * Math.min(1, Math.max(0, item.similarity))}%`;
    track.append(fill);
    const number = node("span", "number", item.similarity.toFixed(2));
    number.prepend(node("span", "unseen", "similarity "));
    measure.append(track, number);
    caption.append(measure);
    if (same) {
      entry.classList.add("same");
      name.append(node("span", "unseen", ", same label"));
    }
    if (onWhy) {
      const button = node("button", "ask-why", "Why?");
      button.type = "button";
      button.setAttribute("aria-label", `Why is ${nameOf(item)} similar?`);
      button.addEventListener("click", () => onWhy(item));
      entry.append(button);
    }
    if (onMark) entry.append(marks(item, onMark));
  }
  const told = facts(item.metadata ?? {});
  if (told.length) {
    const list = node("dl", "facts");
    list.append(...told);
    entry.append(list);
  }
  return entry;
}

// Two buttons on the picture's lower edge; a pressed one stays visible.
function marks(item, onMark) {
  const group = node("span", "mark-pair");
  for (const [kind, sign] of [["right", "✓"], ["wrong", "✗"]]) {
    const button = node("button", `mark ${kind}`, sign);
    button.type = "button";
    button.value = kind;
    button.title = kind === "right" ? "This is what I look for" : "This is not what I look for";
    button.setAttribute("aria-label", `${nameOf(item)} is ${kind}`);
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => onMark(item, kind));
    group.append(button);
  }
  return group;
}

export function ghosts(count) {
  return Array.from({ length: count }, () => {
    const entry = node("li", "card ghost");
    entry.append(node("span", "shot"));
    entry.setAttribute("aria-hidden", "true");
    return entry;
  });
}

// Arrow keys move the focus from picture to picture, as they are placed in the grid.
export function walkable(grid) {
  grid.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() };
    if (!(event.key in steps) || event.ctrlKey || event.metaKey || event.altKey) return;
    const links = [...grid.querySelectorAll(".card:not([hidden]) > a")];
    const at = links.indexOf(event.target.closest(".card")?.querySelector("a"));
    const next = links[at + steps[event.key]];
    if (at < 0 || !next) return;
    event.preventDefault();
    next.focus();
  });
  function columns() {
    return getComputedStyle(grid).gridTemplateColumns.split(" ").length;
  }
}
