// Server-sent events by fetch, because EventSource cannot send a header and a token must not be in an address.

import { send } from "./access.js";

const SILENT_AFTER = 25_000; // milliseconds; the server says something at least every 15 s
const LONGEST_WAIT = 10_000;

/**
 * Follow a stream for as long as the page is open, and come back after every failure where it ended.
 *
 * @param {string} path under /api/v1.
 * @param {(kind: string, data: any) => void} onMessage for each message.
 * @param {(live: boolean, problem: Error | null) => void} onState when the connection is there, and when it is lost.
 */
export async function follow(path, onMessage, onState) {
  let last = null;
  let wait = 500;
  for (;;) {
    const stop = new AbortController();
    let watchdog = null;
    const heard = () => {
      alive();
      onState(true, null);
      wait = 500;
    };
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => stop.abort(), SILENT_AFTER); // a laptop that slept keeps dead connections open
    };
    try {
      const headers = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
      alive();
      const response = await send(path, { headers, signal: stop.signal });
      for await (const message of messages(response.body, heard)) {
        if (message.id !== null) last = message.id;
        if (message.data === "") continue;
        const data = JSON.parse(message.data);
        if (message.kind === "problem") throw new Error(data.detail);
        onMessage(message.kind, data);
      }
      onState(false, null);
    } catch (problem) {
      onState(false, stop.signal.aborted ? new Error("the server is silent") : problem);
      if (problem.status === 401 || problem.status === 403) return; // another token is needed, not another try
    } finally {
      clearTimeout(watchdog);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }
}

/** The messages in a body, as the specification of server-sent events reads them. */
async function* messages(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let message = fresh();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (message.lines.length || message.id !== null) yield { ...message, data: message.lines.join("\n") };
        message = fresh();
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") message.kind = text;
      else if (field === "data") message.lines.push(text);
      else if (field === "id") message.id = text;
    }
  }
}

const fresh = () => ({ kind: "message", id: null, lines: [] });
