// Requests to the server; a failure becomes an Error with one sentence.

export async function ask(path, { values = {}, ...options } = {}) {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
  const answer = await fetch(`api/${path}?${query}`, options).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Error("The server cannot be reached. Is it still running?");
  });
  if (answer.ok) return answer.json();
  const { detail } = await answer.json().catch(() => ({})); // it may not come from our server
  throw Object.assign(new Error(detail ?? `The server refused (${answer.status}).`), { status: answer.status });
}

// Options of `ask` that post a form; a list is several fields of one name.
export function form(fields) {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) for (const one of [value].flat()) body.append(name, one);
  return { method: "POST", body };
}

// The query itself as fields: an indexed picture, or the visitor's own.
export const fieldsOf = (query) => (query.file ? { image: query.file } : { item: query.item });
export const imageOf = (id, size) => `api/items/${id}/image?size=${size}`;
