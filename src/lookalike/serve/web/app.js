// The page: what is shown follows the address, so that back, forward and links work.

import { ask, fieldsOf, form, imageOf } from "./api.js";
import { $, breakable, card, facts, nameOf, readable } from "./cards.js";
import { hideMap, prepareMap, showMap } from "./map.js";
import { showWhy } from "./why.js";

const FIRST = 36; // neighbours of the first request
const OPENING = 24;
const MOST_MARKS = 64;
const KEPT_UPLOADS = 20;
const uploads = new Map(); // number -> {file, url}; until the page is closed
const scrolls = new Map(); // history entry -> its scroll position
let info = null; // what /api/about says
let running = null; // what the page is waiting for
let current = null; // the search that is shown: {key, query, own, k, neighbours, milliseconds}
let marks = new Map(); // id -> "right" | "wrong", in the order of marking
let before = []; // what the marks were before each change

// ---- addresses

function read() {
  const given = new URLSearchParams(location.search);
  const number = (name) => (/^\d+$/.test(given.get(name)) ? Number(given.get(name)) : null);
  const ids = (name) => (given.get(name) ?? "").split(".").filter((part) => /^\d+$/.test(part)).slice(0, MOST_MARKS).map(Number);
  return {
    view: given.get("view"), item: number("item"), upload: number("upload"),
    label: given.get("label") ?? "", where: given.get("where") ?? "",
    right: ids("right"), wrong: ids("wrong"), atLeast: Math.min(1, Number(given.get("at-least")) || 0),
  };
}

// This address with changes; an empty value leaves its name out.
function address(changes) {
  const parts = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) value === "" ? parts.delete(name) : parts.set(name, value);
  return parts.size ? `?${parts}` : "./";
}
// A new search keeps label, filter and threshold.
const fresh = { view: "", item: "", upload: "", right: "", wrong: "" };
const hrefOf = (id) => address({ ...fresh, item: id });
// With the filter as it stands in its field: what was typed is not lost.
const typed = (changes) => address({ where: $("where").value.trim(), ...changes });
const newState = () => ({ key: Math.random(), seed: Math.floor(Math.random() * 2 ** 31) });

function go(to, replace = false) {
  if (replace) {
    history.replaceState(history.state, "", to);
  } else {
    scrolls.set(history.state.key, scrollY);
    history.pushState(newState(), "", to);
  }
  return show({ moved: !replace });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.href), here = new URL("./", location.href);
  if (url.origin !== here.origin || url.pathname !== here.pathname || url.hash) return;
  event.preventDefault();
  go(url.search || "./");
});
addEventListener("popstate", () => show({ moved: true, back: true }));

// ---- what is shown

function only(section, title, heading, moved) {
  for (const id of ["opening", "results", "map"]) $(id).hidden = id !== section;
  $("ask").classList.toggle("large", section === "opening");
  $("to-map").ariaCurrent = section === "map" ? "page" : null;
  $("to-search").ariaCurrent = section === "map" ? null : "page";
  document.title = `${title} · Lookalike`;
  if (moved) $(heading).focus({ preventScroll: true });
}

async function show({ moved = false, back = false } = {}) {
  running?.abort();
  running = new AbortController();
  const { signal } = running, to = read();
  $("why").close();
  complain("");
  hideMap();
  try {
    if (to.view === "map") {
      only("map", "Map", "map-title", moved);
      $("map-label").value = to.label;
      await showMap(to.label, current?.query.item);
    } else if (to.item !== null) await showSearch(to, { item: to.item }, signal, moved);
    else if (uploads.has(to.upload)) await showSearch(to, uploads.get(to.upload), signal, moved);
    else await showOpening(to, signal, moved);
  } catch (error) {
    if (signal.aborted) return;
    // what was found before is not what was asked for now
    current = null;
    $("grid").replaceChildren();
    for (const id of ["grid", "opening-grid"]) $(id).removeAttribute("aria-busy");
    $("count").textContent = "";
    if (error.status === 422 && to.where && !$("results").hidden) complainFilter(error.message);
    else complain(error.message, () => show());
  }
  if (moved && !signal.aborted) scrollTo(0, back ? scrolls.get(history.state.key) ?? 0 : 0);
}

async function showOpening(to, signal, moved) {
  only("opening", info?.name ?? "Search", "opening-title", moved);
  current = null;
  if (to.upload !== null) {
    history.replaceState(history.state, "", "./");
    complain("The uploaded picture was not stored; choose it again.");
  }
  const { items, total } = await ask("items", { values: { seed: history.state.seed, limit: OPENING }, signal });
  $("opening-grid").replaceChildren(...items.map((item) => card(item, hrefOf(item.id))));
  $("opening-grid").removeAttribute("aria-busy");
  $("opening-empty").hidden = total > 0;
  $("opening-title").hidden = total === 0;
  $("shuffle").hidden = total <= OPENING;
}

async function showSearch(to, query, signal, moved) {
  const key = query.url ?? query.item, { label, where } = to, same = current?.key === key;
  only("results", "Search", "title", moved);
  $("label").value = label;
  writeFilter(where);
  complainFilter("");
  $("threshold").value = to.atLeast;
  for (const id of ["query-unseen", "empty", "more", "most", "agreement"]) $(id).hidden = true;
  $("count").textContent = "Searching…";
  $("grid").setAttribute("aria-busy", "true");
  if (!same) {
    $("query-image").hidden = false;
    $("query-image").src = query.url ?? imageOf(query.item, "large");
    describe({ label: query.file ? "Your picture" : "", path: query.file?.name ?? "", metadata: {} });
  }
  const item = query.file ? null : await ask(`items/${query.item}`, { signal });
  if (item) describe(item);
  const k = same ? current.k : FIRST, moves = { positive_ids: to.right, negative_ids: to.wrong };
  const answer = await ask("search", { ...form({ ...fieldsOf(query), ...moves }), values: { k, label, where }, signal });
  await started;
  if (signal.aborted) return;
  const own = label ? null : item?.label ?? null;
  current = { key, query, own, k, ...answer };
  const alike = answer.neighbours.map((near) => own !== null && near.label === own);
  $("grid").removeAttribute("aria-busy");
  $("grid").replaceChildren(...answer.neighbours.map((near, i) => card(near, hrefOf(near.id), { same: alike[i], why: Boolean(info?.runtime) })));
  if (own !== null && alike.length) {
    const first = alike.slice(0, 10);
    $("agreement-count").textContent = `${first.filter(Boolean).length} of ${first.length}`;
    $("agreement").hidden = false;
  }
  marks = new Map([...to.right.map((id) => [id, "right"]), ...to.wrong.map((id) => [id, "wrong"])]);
  before = [];
  paintMarks();
  $("refined").hidden = !marks.size;
  $("refined-text").textContent = `Moved by your marks: ${inWords()}.`;
  sift();
}

function describe(item) {
  const mine = item.id === undefined;
  $("query-label").replaceChildren(...breakable(readable(item.label ?? "")));
  $("query-path").replaceChildren(...breakable(item.path));
  $("query-facts").replaceChildren(...facts(item.metadata));
  $("query-image").alt = item.path && (mine ? `Your picture: ${item.path}` : `Query: ${nameOf(item)}, ${item.path}`);
  document.title = `${mine ? item.label || "Search" : nameOf(item)} · Lookalike`;
}

// Hide what is less similar than the slider says.
function sift() {
  const atLeast = Number($("threshold").value);
  $("threshold-value").textContent = atLeast.toFixed(2);
  if (!current) return;
  const { neighbours, k, milliseconds } = current, all = neighbours.length, most = info?.neighbours ?? FIRST;
  for (const entry of $("grid").children) entry.hidden = Number(entry.dataset.similarity) < atLeast;
  const shown = neighbours.filter((near) => near.similarity >= atLeast).length;
  const count = shown < all ? `${shown} of ${all} shown` : plural(all, "picture");
  $("count").textContent = `${count} · ${Math.round(milliseconds)} ms`;
  $("grid").hidden = $("empty").hidden = true;
  $(shown ? "grid" : "empty").hidden = false;
  $("more").hidden = all < k || k >= most || shown < all;
  $("most").hidden = all < k || k < most || shown < all;
  $("most").textContent = `These are the ${most} most similar, which is as many as are shown; a label or a filter narrows the search.`;
  if (shown) return say(`${shown} similar.`);
  if (all) offer(`Nothing is that similar: the nearest has ${neighbours[0].similarity.toFixed(2)}.`, "Show all", { "at-least": "" });
  else if (read().where) offer("The filter leaves no other picture.", "Remove the filter", { where: "" });
  else if (read().label) offer(`No other picture has the label “${readable(read().label)}”.`, "All labels", { label: "" });
  else offer("There is nothing to compare with.");
  say($("empty-text").textContent);
}

// ---- messages

// In place of results: what is wrong, and a way out.
function offer(sentence, button = "", changes = {}) {
  $("empty").hidden = false;
  $("empty-text").textContent = sentence;
  $("empty-button").textContent = button;
  $("empty-button").hidden = !button;
  $("empty-button").onclick = () => go(address(changes));
}

function complain(sentence, retry = null) {
  $("error").hidden = !sentence;
  $("error-text").textContent = sentence;
  $("retry").hidden = !retry;
  $("retry").onclick = retry;
}

// What is wrong with the filter stands under it.
function complainFilter(sentence) {
  $("where-error").textContent = sentence;
  $("where-error").hidden = !sentence;
  $("where").ariaInvalid = String(Boolean(sentence));
  if (sentence) offer("Nothing is searched until the filter can be read.", "Remove the filter", { where: "" });
}

const say = (sentence) => ($("live").textContent = sentence);
const plural = (count, one) => `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

// ---- the visitor's own picture

function take(file) {
  if (!file) return;
  const megabytes = Math.floor(info?.upload_bytes / 2 ** 20);
  if (info && !info.runtime) return complain("This index has no model: pictures cannot be uploaded.");
  if (file.type && !file.type.startsWith("image/")) return complain(`“${file.name}” is not a picture.`);
  if (file.size > info?.upload_bytes) return complain(`“${file.name}” is larger than ${megabytes} MB.`);
  const number = Math.max(0, ...uploads.keys()) + 1;
  uploads.set(number, { file, url: URL.createObjectURL(file) });
  URL.revokeObjectURL(uploads.get(number - KEPT_UPLOADS)?.url);
  uploads.delete(number - KEPT_UPLOADS);
  go(address({ ...fresh, upload: number }));
}

$("file").addEventListener("change", () => take($("file").files[0]));
$("file").addEventListener("click", () => ($("file").value = "")); // the same picture may be chosen again
addEventListener("paste", (event) => {
  const file = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
  if (file) take(file);
  else if (event.target === document.body) complain("There is no picture in the clipboard.");
});
for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    $("veil").hidden = kind === "drop" || (kind === "dragleave" && !event.relatedTarget);
    if (kind === "drop") take(event.dataTransfer.files[0]);
  });
}
$("query-image").addEventListener("error", () => {
  $("query-image").hidden = true;
  $("query-unseen").hidden = false;
});

// ---- marks on results: which are right and which are wrong, until they are searched with or undone

const marked = (kind) => [...marks].filter(([, mark]) => mark === kind).map(([id]) => id);
const inWords = () => `${marked("right").length} right, ${marked("wrong").length} wrong`;

function paintMarks() {
  for (const entry of $("grid").children) {
    entry.dataset.mark = marks.get(Number(entry.dataset.id)) ?? "";
    for (const button of entry.querySelectorAll(".mark")) button.ariaPressed = String(button.value === entry.dataset.mark);
  }
  $("marks").hidden = !before.length;
  $("marks-text").textContent = inWords();
  $("again").disabled = !marks.size;
}

$("grid").addEventListener("click", (event) => {
  const button = event.target.closest("button"), item = button?.closest(".card").item;
  if (!button) return;
  if (button.matches(".ask-why")) return showWhy(current.query, item, hrefOf(item.id));
  before.push(new Map(marks));
  const off = marks.get(item.id) === button.value;
  marks.delete(item.id);
  if (!off) marks.set(item.id, button.value);
  paintMarks();
  say(`${nameOf(item)}: ${off ? "mark removed" : `marked ${button.value}`}. ${inWords()}.`);
});
$("undo").addEventListener("click", () => {
  marks = before.pop();
  paintMarks();
  say(`Undone. ${inWords()}.`);
  if ($("marks").hidden) $("title").focus({ preventScroll: true });
});
$("again").addEventListener("click", () => go(typed({ right: marked("right").join("."), wrong: marked("wrong").join(".") })));
$("forget").addEventListener("click", () => go(typed({ right: "", wrong: "" })));

// ---- controls

$("label").addEventListener("change", (event) => go(typed({ label: event.target.value })));
$("map-label").addEventListener("change", (event) => go(address({ label: event.target.value }), true));
$("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  go(typed(), typed() === address({}));
});
$("where").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  event.preventDefault();
  $("filter").requestSubmit();
});
$("unfilter").addEventListener("click", () => {
  go(address({ where: "" }));
  $("where").focus();
});
function writeFilter(text) {
  $("where").value = text;
  $("unfilter").hidden = !text;
}
// A click on a column writes it into the filter, ready to be compared.
$("columns").addEventListener("click", (event) => {
  const name = event.target.closest("button")?.textContent;
  if (!name) return;
  const field = $("where"), written = field.value.trimEnd();
  const quoted = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
  const joint = !written ? "" : /(\band|\bor|\bnot|\()$/i.test(written) ? " " : " and ";
  writeFilter(`${written}${joint}${quoted} `);
  field.focus();
});
$("threshold").addEventListener("input", sift);
$("threshold").addEventListener("change", (event) => {
  const value = Number(event.target.value);
  history.replaceState(history.state, "", address({ "at-least": value || "" }));
  for (const entry of $("grid").children) entry.querySelector("a").href = hrefOf(entry.dataset.id);
});
$("shuffle").addEventListener("click", () => go("./"));
$("more").addEventListener("click", async () => {
  const known = current.neighbours.length;
  current.k = Math.min(info?.neighbours ?? FIRST, current.k * 2);
  await show();
  $("grid").children[known]?.querySelector("a").focus();
});
function paintTheme(name) {
  const dark = name ? name === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (name) document.documentElement.dataset.theme = name;
  $("theme").ariaLabel = dark ? "Light colours" : "Dark colours";
  $("theme").onclick = () => paintTheme(remembered(dark ? "light" : "dark"));
}
function remembered(name) {
  try {
    return name ? (localStorage.theme = name) : localStorage.theme;
  } catch {
    return name; // private windows may refuse
  }
}

// ---- start

const started = Promise.all([ask("about"), ask("labels")]).then(([about, labels]) => {
  info = about;
  const parts = [about.name, plural(about.pictures, "picture"), ...(labels.length ? [plural(labels.length, "label")] : [])];
  $("about").textContent = parts.join(" · ");
  $("zone-note").textContent = `It is compared and not stored. Up to ${Math.floor(about.upload_bytes / 2 ** 20)} MB.`;
  const chip = (name) => Object.assign(document.createElement("button"), { type: "button", className: "chip", textContent: name });
  $("columns").replaceChildren(...["label", "path", ...about.columns].map(chip));
  if (!about.runtime) {
    $("zone").hidden = true;
    $("no-model").hidden = false;
    $("hero").textContent = "Find the pictures that look alike";
  }
  const engine = [about.network, `${about.dim} numbers per picture`, about.approximation ? "fast search" : "exact search"];
  $("engine").textContent = `${[...engine, about.runtime === "onnx" && "ONNX"].filter(Boolean).join(", ")} ·`;
  for (const id of ["label", "map-label"]) {
    $(id).append(...labels.map(({ name, count }) => new Option(`${readable(name)} (${count})`, name)));
    $(id).value = read().label;
    $(id).closest(".control").hidden = labels.length === 0;
  }
}).catch((error) => complain(error.message, () => location.reload()));
history.scrollRestoration = "manual";
if (!history.state?.seed) history.replaceState(newState(), "");
prepareMap({ hrefOf, say, go: (id) => go(hrefOf(id)) });
paintTheme(remembered());
show();
