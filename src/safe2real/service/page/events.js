// The record as it grows. The newest event is on top; a screen reader hears a summary now and then, and what is grave at once.

import { element, fill, find, say } from "./elements.js";
import { count, moment, shortened } from "./words.js";

const LONGEST = 100; // events in the list
const PAUSE = 4_000; // milliseconds between two announcements
const WHAT = {
  create: "campaign created",
  ask: "handed out",
  tell: "told",
  abandon: "abandoned",
  withdraw: "withdrawn",
  import: "log imported",
  branch: "restored from a copy",
  force: "done for another",
  declare: "rewards declared",
};
const GRAVE = new Set(["withdraw", "abandon", "branch", "force"]);
const waiting = [];
let timer = null;
let body = null;
let newest = 0;

/** Add one event of the stream; one that is in the list already changes nothing. */
export function showEvent(event) {
  if (event.sequence <= newest) return;
  newest = event.sequence;
  body ??= startList();
  body.prepend(row(event));
  while (body.childElementCount > LONGEST) body.lastElementChild.remove();
  waiting.push(event);
  timer ??= setTimeout(announce, PAUSE);
}

/** Begin anew: the record went back, and the events that are shown are not in it any more. */
export function restartEvents() {
  newest = 0;
  body?.replaceChildren();
  find("restarted").hidden = false;
}

function startList() {
  const made = element("tbody");
  const header = ["Event", "What", "Deployment", "Who", "When (UTC)", "More"];
  fill(
    find("event-list"),
    element(
      "div",
      { class: "event-list", tabindex: "0", role: "region", "aria-label": "The last events" },
      element(
        "table",
        {},
        element("caption", {}, `The last ${LONGEST} at most, the newest first`),
        element("thead", {}, element("tr", {}, ...header.map((text) => element("th", { scope: "col" }, text)))),
        made,
      ),
    ),
  );
  return made;
}

function row(event) {
  const more = [
    event.samples && `${count(event.samples)} steps`,
    event.kind === "ask" ? event.reason?.toLowerCase() : event.reason,
    event.by && event.by !== event.worker && `by ${event.by}`,
  ];
  return element(
    "tr",
    { "data-sequence": String(event.sequence) },
    element("th", { scope: "row" }, count(event.sequence)),
    element("td", { class: GRAVE.has(event.kind) ? "grave-event" : null }, inWords(event)),
    element("td", {}, event.id ?? (event.deployment === null ? "" : String(event.deployment))),
    element("td", { class: "long" }, event.worker ?? ""),
    element("td", {}, moment(event.at)),
    element("td", { class: "long" }, shortened(more.filter(Boolean).join(", "))),
  );
}

const inWords = (event) => (event.left_model ? "told: LEFT THE MODEL" : (WHAT[event.kind] ?? event.kind));

function announce() {
  const last = waiting.at(-1);
  const many = waiting.length > 1 ? `${count(waiting.length)} new events. Last: ` : "";
  say(find("announcement"), `${many}${inWords(last)}, ${last.id ?? ""} ${last.worker ?? ""}`);
  waiting.length = 0;
  timer = null;
}
