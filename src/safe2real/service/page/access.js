// Asking the server. The token is kept for this tab alone and goes into a header, never into an address.

const KEY = "safe2real-token";

let ahead = 0; // milliseconds by which the server's clock is ahead of this one

/** Now, by the clock of the server, which dates the record. */
export const now = () => Date.now() + ahead;

/** Where the service is, also behind a proxy that gives it a folder. */
export const ROOT = new URL("..", import.meta.url).pathname;

/** What the server said no with: an RFC 9457 problem document. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `the server answered ${status}`);
    this.status = status;
    this.kind = document.kind;
  }
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null;
export const useToken = (token) => sessionStorage.setItem(KEY, token.trim());
export const forgetToken = () => sessionStorage.removeItem(KEY);

/** The response to a request under /api/v1; everything but success is a `Problem`. */
export async function send(path, { method = "GET", body, headers = {}, signal } = {}) {
  const token = sessionStorage.getItem(KEY);
  const sent = { Accept: "application/json", ...headers };
  if (token !== null) sent.Authorization = `Bearer ${token}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const response = await fetch(`${ROOT}api/v1${path}`, {
    method,
    headers: sent,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { title: "the server does not answer" });
  });
  const date = Date.parse(response.headers.get("Date") ?? "");
  if (!Number.isNaN(date)) ahead = date - Date.now();
  if (!response.ok) throw new Problem(response.status, await documentOf(response));
  return response;
}

/** The JSON document of a request. */
export async function request(path, options) {
  return (await send(path, options)).json();
}

async function documentOf(response) {
  try {
    return await response.json();
  } catch {
    return {}; // a proxy answers in its own way
  }
}
