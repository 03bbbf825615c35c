// Verify on demand: the server computes every certificate again; the page shows how far it is, and what was found.

import { request } from "./access.js";
import { element, fill, find, runOnce, table } from "./elements.js";
import { badge } from "./standing.js";
import { count } from "./words.js";

const EVERY = 700; // milliseconds
const MOST = 50; // problems in the table

/** Set up the form, and show the last verification if there was one. */
export async function startVerify(path) {
  find("verify-form").addEventListener("submit", (event) => {
    event.preventDefault();
    runOnce(find("verify-button"), find("verify-problem"), async () => {
      const head = find("head").value.trim();
      const begun = await request(`${path}/verify`, { method: "POST", body: head ? { head } : {} });
      await follow(path, begun.job);
    });
  });
}

async function follow(path, job) {
  const bar = element("progress", { "aria-label": "Events checked" });
  const text = element("p");
  fill(find("verify-result"), bar, text);
  for (;;) {
    const found = await request(`${path}/verify/${encodeURIComponent(job)}`);
    if (found.state === "failed") throw new Error(found.problem);
    if (found.ledger) {
      show(found.ledger);
      return;
    }
    if (found.total) {
      bar.max = found.total;
      bar.value = found.done;
      text.textContent = `${count(found.done)} of ${count(found.total)} events`;
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

function show(ledger) {
  const problems = ledger.problems.slice(0, MOST).map((one) => [count(one.sequence), one.deployment === null ? "–" : count(one.deployment), one.what]);
  fill(
    find("verify-result"),
    element("p", { class: ledger.holds ? null : "problem" }, ledger.holds ? "The record holds. " : "THE RECORD DOES NOT HOLD. ", badge(ledger.standing)),
    element("p", {}, ledger.statement),
    problems.length ? table(`${count(ledger.problems.length)} problems`, ["Event", "Deployment", "Problem"], problems) : null,
  );
}
