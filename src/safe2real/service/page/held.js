// Who holds what since when. What is overdue is offered for abandoning, with a reason; nothing is abandoned by itself.

import { now, request } from "./access.js";
import { element, fill, find, overdue as overdueInWords, runOnce, table } from "./elements.js";
import { count, duration, moment, since } from "./words.js";

const MOST = 200; // in the table
let path = null;
let chosen = null;
let latest = null;
let mayAbandon = true;

/** Set up the dialogue for the campaign under `campaignPath`. Call once. */
export function startHeld(campaignPath) {
  path = campaignPath;
  find("abandon-cancel").addEventListener("click", () => find("abandon-dialog").close());
  find("abandon-form").addEventListener("submit", (event) => {
    event.preventDefault();
    runOnce(find("abandon-confirm"), find("abandon-problem"), async () => {
      const reason = find("abandon-reason").value;
      await request(`${path}/deployments/${encodeURIComponent(chosen.id)}/abandon`, { method: "POST", body: { reason } });
      find("abandon-dialog").close();
    });
  });
  setInterval(tick, 1_000);
}

/** Whether this token may abandon: an auditor and a worker are not offered it. */
export function allowAbandoning(allowed) {
  mayAbandon = allowed;
}

/** Which of the held ones are overdue now: a fleet that is silent sends nothing that would say so. */
export function overdueNow(status) {
  if (status.lease === null) return status.overdue;
  return status.held.filter((one) => now() - Date.parse(one.at) > 1000 * status.lease).map((one) => one.id);
}

/** Show what is out, the oldest first. */
export function showHeld(status) {
  const shown = JSON.stringify([status.held, status.overdue, status.lease, status.waiting_for, mayAbandon, status.uncertified]);
  if (shown === latest) return;
  latest = shown;
  const overdue = new Set(status.overdue);
  const held = [...status.held].sort((a, b) => a.at.localeCompare(b.at));
  if (!held.length) {
    fill(find("held"), element("p", { class: "remark" }, "Nothing is out."));
    return;
  }
  const focused = document.activeElement?.dataset?.id;
  const header = ["Deployment", "Worker", "Out for", "State", ...(mayAbandon ? ["Give up"] : []), "Since (UTC)"];
  const lease = status.lease === null ? "No lease was stated." : `A deployment may be out for ${duration(status.lease)}.`;
  fill(
    find("held"),
    table(
      [`${count(held.length)} out`, overdue.size ? overdueInWords(overdue.size) : ", 0 overdue", `. ${lease}`],
      header,
      held.slice(0, MOST).map((one) => row(one, overdue.has(one.id), status)),
      "Deployments that are out",
    ),
    held.length > MOST ? element("p", { class: "remark" }, `The oldest ${MOST} are shown.`) : null,
  );
  if (focused) document.querySelector(`button[data-id="${CSS.escape(focused)}"]`)?.focus();
}

function row(one, isOverdue, status) {
  const isRefuted = status.uncertified.includes(one.id);
  const states = [
    isRefuted && "NOT CERTIFIED ANY MORE: stop the machine",
    isOverdue ? "OVERDUE" : "out",
    status.waiting_for === one.id && "others wait for it",
  ];
  const button = element(
    "button",
    { type: "button", class: "abandon", "data-id": one.id, "aria-label": `Abandon ${one.id}` },
    "Abandon…",
  );
  button.addEventListener("click", () => offer(one, isOverdue));
  return element(
    "tr",
    { class: isRefuted ? "refuted" : isOverdue ? "overdue" : null },
    element("th", { scope: "row" }, one.id),
    element("td", { class: "long" }, one.worker),
    element("td", { "data-since": one.at }, since(one.at, now())),
    element("td", {}, states.filter(Boolean).join(", ")),
    mayAbandon && element("td", {}, button),
    element("td", {}, moment(one.at)),
  );
}

function offer(one, isOverdue) {
  chosen = one;
  fill(find("abandon-problem"));
  fill(find("abandon-what"), `${one.id}, which ${one.worker} has had for ${since(one.at, now())}.`);
  find("abandon-reason").value = isOverdue ? `no report for ${since(one.at, now())}, longer than the lease; ` : "";
  find("abandon-dialog").showModal();
  find("abandon-reason").focus();
}

function tick() {
  const at = now();
  for (const cell of document.querySelectorAll("[data-since]")) {
    const text = since(cell.dataset.since, at);
    if (cell.textContent !== text) cell.textContent = text;
  }
}
