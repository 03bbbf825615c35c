// All campaigns at a glance, the gravest first.

import { request } from "./access.js";
import { element, fill, find, overdue, say } from "./elements.js";
import { asksForToken, showAccess, showConnection, startShell } from "./shell.js";
import { badge, wear } from "./standing.js";
import { count, counted, number } from "./words.js";

const EVERY = 1_500; // milliseconds
const GRAVEST_FIRST = ["refuted", "unknown", "heuristic", "incomplete", "certified"];
let shown = "";

startShell();
look();

async function look() {
  const began = performance.now();
  let again = true;
  try {
    showAccess(await request("/whoami"));
    show((await request("/campaigns")).campaigns);
    showConnection(true);
  } catch (problem) {
    showConnection(false, problem);
    again = !asksForToken(problem);
  }
  // A server with many campaigns, or a slow one, is asked less often.
  const took = performance.now() - began;
  if (again) setTimeout(look, Math.max(document.hidden ? 5 * EVERY : EVERY, 4 * took));
}

function show(campaigns) {
  const text = JSON.stringify(campaigns);
  if (text === shown) return; // focus stays where it is
  shown = text;
  const rank = (one) => GRAVEST_FIRST.indexOf(standingOf(one)) - (one.halted ? 10 : 0);
  campaigns.sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  const worst = campaigns.length ? standingOf(campaigns[0]) : "unknown";
  wear(
    worst,
    campaigns.some((one) => one.halted),
    counted(campaigns.length, "campaign"),
  );
  const refuted = campaigns.filter((one) => standingOf(one) === "refuted").length;
  say(
    find("summary"),
    campaigns.length ? `${counted(campaigns.length, "campaign")}, ${count(refuted)} refuted.` : "There is no campaign yet.",
  );
  const focused = document.activeElement?.getAttribute("href");
  fill(find("campaigns"), element("ul", { class: "cards" }, ...campaigns.map(card)));
  if (focused) document.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

const standingOf = (one) => (one.problem || !one.standing ? "unknown" : one.standing);

function card(one) {
  const standing = standingOf(one);
  const title = element("h2", {}, element("a", { href: `campaigns/${encodeURIComponent(one.name)}` }, one.name));
  if (one.problem)
    return element(
      "li",
      { class: `card ${standing}` },
      title,
      badge(standing),
      element("p", { class: "problem" }, one.problem),
    );
  return element(
    "li",
    { class: `card ${standing}` },
    title,
    element("p", {}, badge(standing)),
    one.halted && element("p", { class: "problem" }, "STOP THE MACHINE"),
    element(
      "p",
      {},
      one.stopped ? "Stopped: plan now." : `Uncertainty ${number(one.uncertainty)}, tolerance ${number(one.tolerance)}.`,
    ),
    element("p", {}, `${counted(one.rounds, "deployment")}, ${counted(one.samples, "sample")}.`),
    element("p", {}, `${count(one.held)} out`, overdue(one.overdue), "."),
  );
}
