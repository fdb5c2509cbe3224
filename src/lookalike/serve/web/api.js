// Requests to the server; a failure becomes an Error with one sentence.

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server cannot be reached. Is it still running?");
  }
  if (answer.ok) return answer.json();
  let sentence = `The server refused (${answer.status}).`;
  try {
    sentence = (await answer.json()).detail || sentence;
  } catch { /* the answer was not from our server */ }
  throw Object.assign(new Error(sentence), { status: answer.status });
}

function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return text ? `?${text}` : "";
}

export const about = () => ask("api/about");
export const labels = () => ask("api/labels");
export const map = () => ask("api/map");
export const item = (id, signal) => ask(`api/items/${id}`, { signal });
export const sample = (seed, limit, signal) => ask(`api/items${query({ seed, limit })}`, { signal });
export function neighbours(id, { k, label, where, right, wrong }, signal) {
  if (!right.length && !wrong.length) {
    return ask(`api/items/${id}/neighbours${query({ k, label, where })}`, { signal });
  }
  const body = { items: [id], k, positive_ids: right, negative_ids: wrong };
  if (label) body.label = label;
  if (where) body.where = where;
  const headers = { "Content-Type": "application/json" };
  return ask("api/query", { method: "POST", body: JSON.stringify(body), headers, signal });
}
export const imageOf = (id, size) => `api/items/${id}/image?size=${size}`;

export function search(file, { k, label, where, right, wrong }, signal) {
  const body = new FormData();
  body.append("image", file, file.name || "picture");
  for (const id of right) body.append("positive_ids", id);
  for (const id of wrong) body.append("negative_ids", id);
  return ask(`api/search${query({ k, label, where })}`, { method: "POST", body, signal });
}

export function why(asking, neighbour, signal) {
  const body = new FormData();
  body.append("neighbour", neighbour);
  if (asking.file) body.append("image", asking.file, asking.file.name || "picture");
  else body.append("item", asking.item);
  return ask("api/why", { method: "POST", body, signal });
}
