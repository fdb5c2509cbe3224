// The page: what is shown follows the address, so that back, forward and links work.

import * as api from "./api.js";
import { breakable, card, facts, ghosts, nameOf, readable, walkable } from "./cards.js";
import { prepareMarks } from "./feedback.js";
import { prepareMap } from "./map.js";
import { prepareWhy } from "./why.js";

const $ = (id) => document.getElementById(id);
const FIRST = 36; // neighbours of the first request
const OPENING = 24;
const MOST_MARKS = 64;
const KEPT_UPLOADS = 20;

const uploads = new Map(); // number -> {file, url}; until the page is closed
const scrolls = new Map(); // history entry -> its scroll position
let info = null;
let running = null; // what the page is waiting for
let current = null; // {asking: {item} | {file, url}, item, neighbours, k, label}
let lastItem = null;

// ---- addresses

function read() {
  const given = new URLSearchParams(location.search);
  const number = (name) => (/^\d+$/.test(given.get(name) ?? "") ? Number(given.get(name)) : null);
  const numbers = (name) => (given.get(name) ?? "").split(".").filter((part) => /^\d+$/.test(part)).slice(0, MOST_MARKS).map(Number);
  return {
    view: given.get("view") === "map" ? "map" : "search",
    item: number("item"),
    upload: number("upload"),
    label: given.get("label") ?? "",
    where: given.get("where") ?? "",
    right: numbers("right"),
    wrong: numbers("wrong"),
    atLeast: Math.min(1, Math.max(0, Number(given.get("at-least")) || 0)),
  };
}

function address({ view, item, upload, label, where, right, wrong, atLeast }) {
  const parts = new URLSearchParams();
  if (view === "map") parts.set("view", "map");
  if (item !== null && item !== undefined) parts.set("item", item);
  if (upload !== null && upload !== undefined) parts.set("upload", upload);
  if (label) parts.set("label", label);
  if (where) parts.set("where", where);
  if (right?.length) parts.set("right", right.join("."));
  if (wrong?.length) parts.set("wrong", wrong.join("."));
  if (atLeast) parts.set("at-least", atLeast);
  const text = parts.toString();
  return text ? `?${text}` : "./";
}

const hrefOf = (id) => address({ item: id, ...kept() });

// The threshold stays from search to search; label and filter too.
function kept() {
  const { label, where, atLeast } = read();
  return { label, where, atLeast };
}

function freshState() {
  return { key: Math.random(), seed: Math.floor(Math.random() * 2 ** 31) };
}

function go(to, { replace = false } = {}) {
  if (replace) {
    history.replaceState(history.state, "", to);
  } else {
    scrolls.set(history.state?.key, scrollY);
    history.pushState(freshState(), "", to);
  }
  return show({ moved: !replace });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href);
  const here = new URL("./", location.href);
  if (url.origin !== here.origin || url.pathname !== here.pathname || url.hash) return;
  event.preventDefault();
  go(url.search || "./");
});
addEventListener("popstate", () => show({ moved: true, back: true }));

// ---- what is shown

function only(section) {
  for (const id of ["opening", "results", "map"]) $(id).hidden = id !== section;
  $("ask").classList.toggle("large", section === "opening");
  for (const [id, here] of [["to-map", section === "map"], ["to-search", section !== "map"]]) {
    if (here) $(id).setAttribute("aria-current", "page");
    else $(id).removeAttribute("aria-current");
  }
}

async function show({ moved = false, back = false } = {}) {
  running?.abort();
  running = new AbortController();
  const { signal } = running;
  const where = read();
  $("why").close();
  complain("");
  if (where.view !== "map") sea.hide();
  try {
    if (where.view === "map") await showMap(where, moved);
    else if (where.item !== null) await showItem(where, signal, moved);
    else if (where.upload !== null) await showUpload(where, signal, moved);
    else await showOpening(signal, moved);
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    for (const id of ["grid", "opening-grid"]) {
      $(id).removeAttribute("aria-busy");
      $(id).querySelectorAll(".ghost").forEach((ghost) => ghost.remove());
    }
    $("count").textContent = "";
    if (error.status === 422 && where.where && !$("results").hidden) complainFilter(error.message);
    else complain(error.message, () => show());
  }
  if (moved && !signal.aborted) scrollTo(0, back ? scrolls.get(history.state?.key) ?? 0 : 0);
}

async function showOpening(signal, moved) {
  only("opening");
  document.title = info ? `${info.name} · Lookalike` : "Lookalike";
  current = null;
  const grid = $("opening-grid");
  if (!grid.children.length) grid.replaceChildren(...ghosts(OPENING));
  const { items, total } = await api.sample(history.state.seed, OPENING, signal);
  grid.replaceChildren(...items.map((item) => card(item, { href: hrefOf(item.id) })));
  $("opening-empty").hidden = total > 0;
  $("opening-title").hidden = total === 0;
  $("shuffle").hidden = total <= OPENING;
  if (moved) $("opening-title").focus({ preventScroll: true });
}

async function showItem(where, signal, moved) {
  prepareResults(where);
  const same = current?.asking.item === where.item;
  if (!same) {
    $("query-image").src = api.imageOf(where.item, "large");
    $("query-image").alt = "";
    $("query-label").textContent = $("query-path").textContent = "";
    $("query-facts").replaceChildren();
  }
  const k = same ? current.k : FIRST;
  const searching = api.neighbours(where.item, { k, ...where }, signal);
  searching.catch(() => {}); // it is awaited below, unless the picture is unknown
  const item = await api.item(where.item, signal);
  lastItem = item.id;
  $("query-image").alt = `Query: ${nameOf(item)}, ${item.path}`;
  $("query-label").replaceChildren(...breakable(readable(item.label ?? "")));
  $("query-path").replaceChildren(...breakable(item.path));
  $("query-facts").replaceChildren(...facts(item.metadata));
  document.title = `${nameOf(item)} · Lookalike`;
  await found({ asking: { item: item.id }, item, k, ...await searching }, signal, moved);
}

async function showUpload(where, signal, moved) {
  const upload = uploads.get(where.upload);
  if (!upload) {
    history.replaceState(history.state, "", "./");
    await showOpening(signal, moved);
    complain("The uploaded picture was not stored; choose it again.");
    return;
  }
  prepareResults(where);
  const same = current?.asking.file === upload.file;
  $("query-image").src = upload.url;
  $("query-image").alt = `Your picture: ${upload.file.name}`;
  $("query-label").textContent = "Your picture";
  $("query-path").textContent = upload.file.name;
  $("query-facts").replaceChildren();
  document.title = "Your picture · Lookalike";
  const k = same ? current.k : FIRST;
  const answer = await api.search(upload.file, { k, ...where }, signal);
  await found({ asking: upload, item: null, k, ...answer }, signal, moved);
}

function prepareResults(where) {
  only("results");
  $("query-image").hidden = false;
  $("query-unseen").hidden = true;
  $("label").value = where.label;
  writeFilter(where.where);
  complainFilter("");
  $("unfilter").hidden = !where.where;
  $("threshold").value = where.atLeast;
  $("threshold-value").textContent = where.atLeast.toFixed(2);
  $("empty").hidden = $("more").hidden = $("agreement").hidden = true;
  $("count").textContent = "Searching…";
  const grid = $("grid");
  grid.setAttribute("aria-busy", "true");
  if (!grid.children.length) grid.replaceChildren(...ghosts(12));
}

async function found(answer, signal, moved) {
  await started;
  if (signal.aborted) return;
  current = answer;
  const { label, right, wrong } = read();
  const own = answer.item?.label;
  $("grid").removeAttribute("aria-busy");
  $("grid").replaceChildren(...answer.neighbours.map((near) => card(near, {
    href: hrefOf(near.id),
    onWhy: canExplain() ? (item) => why(current.asking, item) : null,
    onMark: (item, kind) => marks.toggle(item.id, kind, nameOf(item)),
    same: own !== null && own !== undefined && near.label === own && !label,
  })));
  if (own && !label && answer.neighbours.length) {
    const first = answer.neighbours.slice(0, 10);
    const agreeing = document.createElement("b");
    agreeing.textContent = `${first.filter((near) => near.label === own).length} of ${first.length}`;
    $("agreement").replaceChildren(agreeing, " nearest have the same label.");
    $("agreement").hidden = false;
  }
  marks.show(right, wrong);
  $("refined").hidden = !right.length && !wrong.length;
  $("refined-text").textContent = `Moved by your marks: ${right.length} right, ${wrong.length} wrong.`;
  sift();
  if (moved) $("title").focus({ preventScroll: true });
}

// Hide what is less similar than the slider says.
function sift() {
  const atLeast = Number($("threshold").value);
  $("threshold-value").textContent = atLeast.toFixed(2);
  if (!current) return;
  let shown = 0;
  for (const entry of $("grid").children) {
    entry.hidden = Number(entry.dataset.similarity) < atLeast;
    shown += entry.hidden ? 0 : 1;
  }
  const all = current.neighbours.length;
  const count = shown < all ? `${shown} of ${all} shown` : `${all} picture${all === 1 ? "" : "s"}`;
  $("count").textContent = `${count} · ${Math.round(current.milliseconds)} ms`;
  $("empty").hidden = shown > 0;
  $("grid").hidden = shown === 0;
  if (!shown) {
    const { label, where } = read();
    const tooHigh = all > 0;
    $("empty-text").textContent = tooHigh
      ? `Nothing is that similar: the nearest has ${current.neighbours[0].similarity.toFixed(2)}.`
      : where ? "The filter leaves no other picture."
      : label ? `No other picture has the label “${readable(label)}”.` : "There is nothing to compare with.";
    $("empty-button").textContent = tooHigh ? "Show all" : where ? "Remove the filter" : "All labels";
    $("empty-button").hidden = !tooHigh && !label && !where;
    const wider = tooHigh ? { atLeast: 0 } : where ? { where: "" } : { label: "" };
    $("empty-button").onclick = () => go(address({ ...read(), ...wider }));
  }
  const reached = current.k >= (info?.neighbours ?? FIRST) || all < current.k;
  $("more").hidden = reached || shown < all;
  say(shown ? `${count} similar.` : $("empty-text").textContent);
}

async function showMap(where, moved) {
  only("map");
  document.title = "Map · Lookalike";
  $("map-label").value = where.label;
  if (moved) $("map-title").focus({ preventScroll: true });
  await sea.show(where.label, lastItem);
}

// ---- messages

function complain(sentence, retry) {
  const box = $("error");
  box.hidden = !sentence;
  box.replaceChildren();
  if (!sentence) return;
  const text = document.createElement("span");
  text.textContent = sentence;
  box.append(text);
  if (retry) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Try again";
    button.addEventListener("click", retry);
    box.append(button);
  }
}

// What is wrong with the filter stands under it.
function complainFilter(sentence) {
  $("where-error").textContent = sentence;
  $("where-error").hidden = !sentence;
  $("where").setAttribute("aria-invalid", String(Boolean(sentence)));
  if (!sentence) return;
  $("grid").replaceChildren();
  $("empty-text").textContent = "Nothing is searched until the filter can be read.";
  $("empty-button").textContent = "Remove the filter";
  $("empty-button").hidden = $("empty").hidden = false;
  $("empty-button").onclick = () => go(address({ ...read(), where: "" }));
}

function say(sentence) {
  $("live").textContent = sentence;
}

// ---- the visitor's own picture

function take(file) {
  if (!file) return;
  if (info && !info.runtime) {
    complain("This index has no model: pictures cannot be uploaded.");
    return;
  }
  if (file.type && !file.type.startsWith("image/")) {
    complain(`“${file.name}” is not a picture.`);
    return;
  }
  if (info && file.size > info.upload_bytes) {
    complain(`“${file.name}” is larger than ${Math.floor(info.upload_bytes / 2 ** 20)} MB.`);
    return;
  }
  const number = (Math.max(0, ...uploads.keys()) || 0) + 1;
  uploads.set(number, { file, url: URL.createObjectURL(file) });
  for (const [old, { url }] of uploads) {
    if (uploads.size <= KEPT_UPLOADS) break;
    URL.revokeObjectURL(url);
    uploads.delete(old);
  }
  go(address({ upload: number, ...kept() }));
}

$("file").addEventListener("change", (event) => {
  take(event.target.files[0]);
  event.target.value = "";
});
addEventListener("paste", (event) => {
  const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
  if (file) take(file);
  else if (event.target === document.body) complain("There is no picture in the clipboard.");
});
let inside = 0;
const carriesFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
addEventListener("dragenter", (event) => {
  if (!carriesFile(event)) return;
  inside++;
  $("veil").hidden = false;
});
addEventListener("dragleave", (event) => {
  if (!carriesFile(event)) return;
  inside = Math.max(0, inside - 1);
  $("veil").hidden = inside === 0;
});
addEventListener("dragover", (event) => {
  if (carriesFile(event)) event.preventDefault();
});
addEventListener("drop", (event) => {
  inside = 0;
  $("veil").hidden = true;
  if (!carriesFile(event)) return;
  event.preventDefault();
  take(event.dataTransfer.files[0]);
});
$("query-image").addEventListener("error", () => {
  $("query-image").hidden = true;
  $("query-unseen").hidden = false;
});

// ---- controls

// The address, with the filter as it stands in its field: what was typed is not lost.
const typed = () => ({ ...read(), where: $("where").value.trim() });
$("label").addEventListener("change", (event) => go(address({ ...typed(), label: event.target.value })));
$("map-label").addEventListener("change", (event) => go(address({ ...read(), label: event.target.value }), { replace: true }));
$("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  if (typed().where !== read().where) go(address(typed()));
  else show();
});
$("where").addEventListener("input", fitFilter);
addEventListener("resize", fitFilter);
$("where").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  $("filter").requestSubmit();
});
function writeFilter(text) {
  $("where").value = text;
  fitFilter();
}
// A long filter wraps, so that all of it can be read.
function fitFilter() {
  const field = $("where");
  field.style.height = "auto";
  if (field.value) field.style.height = `${field.scrollHeight + field.offsetHeight - field.clientHeight}px`;
}
$("unfilter").addEventListener("click", () => {
  go(address({ ...read(), where: "" }));
  $("where").focus();
});
$("forget").addEventListener("click", () => go(address({ ...typed(), right: [], wrong: [] })));
$("threshold").addEventListener("input", sift);
$("threshold").addEventListener("change", (event) => {
  history.replaceState(history.state, "", address({ ...read(), atLeast: Number(event.target.value) }));
  for (const entry of $("grid").children) entry.querySelector("a").href = hrefOf(entry.dataset.id);
});
$("shuffle").addEventListener("click", () => go("./"));
$("more").addEventListener("click", async () => {
  const before = current.neighbours.length;
  current.k = Math.min(info?.neighbours ?? FIRST, current.k * 2);
  await show();
  $("grid").children[before]?.querySelector("a").focus();
});
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  paintTheme(dark ? "light" : "dark");
  try {
    localStorage.setItem("theme", root.dataset.theme);
  } catch { /* private windows may refuse */ }
});
function paintTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  const dark = name ? name === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  $("theme").setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
}

// A click on a column writes it into the filter, ready to be compared.
function offerColumns(columns) {
  const names = ["label", "path", ...columns];
  $("columns").replaceChildren(...names.map((name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "chip";
    button.textContent = name;
    button.addEventListener("click", () => {
      const field = $("where");
      const quoted = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
      const before = field.value.trimEnd();
      const joined = before && !/(\band|\bor|\bnot|\()$/i.test(before) ? `${before} and ` : before && `${before} `;
      writeFilter(`${joined}${quoted} `);
      field.focus();
      field.setSelectionRange(field.value.length, field.value.length);
    });
    return button;
  }));
  $("columns").hidden = false;
}

const canExplain = () => Boolean(info?.runtime);

// ---- start

const marks = prepareMarks({ say, again: (marked) => go(address({ ...typed(), ...marked })) });
const why = prepareWhy(hrefOf);
const sea = prepareMap({ hrefOf, say, go: (id) => go(hrefOf(id)) });
walkable($("grid"));
walkable($("opening-grid"));
history.scrollRestoration = "manual";
if (!history.state?.seed) history.replaceState(freshState(), "");
let theme = null;
try {
  theme = localStorage.getItem("theme");
} catch { /* private windows may refuse */ }
paintTheme(theme === "dark" || theme === "light" ? theme : "");

const count = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
const started = Promise.all([api.about(), api.labels()]).then(([about, labels]) => {
  info = about;
  $("about").textContent = `${about.name} · ${count(about.pictures, "picture")}${labels.length ? ` · ${count(labels.length, "label")}` : ""}`;
  $("zone-note").textContent = `It is compared and not stored. Up to ${Math.floor(about.upload_bytes / 2 ** 20)} MB.`;
  offerColumns(about.columns);
  if (!about.runtime) {
    $("zone").hidden = true;
    $("no-model").hidden = false;
    $("hero").textContent = "Find the pictures that look alike";
  }
  $("engine").textContent = `${about.network ? `${about.network}, ` : ""}${about.dim} numbers per picture${about.approximation ? ", fast search" : ", exact search"}${about.runtime === "onnx" ? ", ONNX" : ""} ·`;
  for (const id of ["label", "map-label"]) {
    $(id).append(...labels.map(({ name, count: pictures }) => new Option(`${readable(name)} (${pictures})`, name)));
    $(id).value = read().label;
    $(id).closest(".control").hidden = labels.length === 0;
  }
}).catch((error) => complain(error.message, () => location.reload()));
show();
