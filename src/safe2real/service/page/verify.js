// Verify on demand: the server computes every certificate again; the page shows how far it is, and what was found.

import { request } from "./access.js";
import { element, fill, find, runOnce, table } from "./elements.js";
import { badge } from "./standing.js";
import { count, moment } from "./words.js";

const EVERY = 700; // milliseconds
const MOST = 50; // problems in the table

/** Set up the form, and show the last check that this server knows of. */
export async function startVerify(path) {
  const [button, problems] = [find("verify-button"), find("verify-problem")];
  find("verify-form").addEventListener("submit", (event) => {
    event.preventDefault();
    runOnce(button, problems, async () => {
      const head = find("head").value.trim();
      fill(find("verify-result"));
      await follow(path, await request(`${path}/verify`, { method: "POST", body: head ? { head } : {} }));
    });
  });
  const last = await request(`${path}/verify`).catch(() => null);
  if (last?.job) runOnce(button, problems, () => follow(path, last));
}

/** Show how far a check is until it ends. */
async function follow(path, begun) {
  const bar = element("progress", { "aria-label": "Events checked" });
  const text = element("p");
  fill(find("verify-progress"), bar, text);
  try {
    for (let found = begun; ; found = await request(`${path}/verify`)) {
      if (found.job !== begun.job) throw new Error("another check began since; verify again");
      if (found.state === "failed") throw new Error(found.problem);
      if (found.state === "done") {
        show(found);
        return;
      }
      if (found.total) {
        bar.max = found.total;
        bar.value = found.done;
        text.textContent = `${count(found.done)} of ${count(found.total)} events`;
      }
      await new Promise((resolve) => setTimeout(resolve, EVERY));
    }
  } finally {
    fill(find("verify-progress"));
  }
}

function show({ ledger, by, ended }) {
  const problems = ledger.problems
    .slice(0, MOST)
    .map((one) => [count(one.sequence), one.deployment === null ? "–" : count(one.deployment), one.what]);
  fill(
    find("verify-result"),
    element(
      "p",
      { class: ledger.holds ? null : "problem" },
      ledger.holds ? "The record holds. " : "THE RECORD DOES NOT HOLD. ",
      badge(ledger.standing),
    ),
    element("p", {}, ledger.statement),
    element("p", { class: "remark" }, `Checked for ${by}, ${moment(ended)} UTC, up to event ${count(ledger.events)}.`),
    problems.length
      ? table(`${count(ledger.problems.length)} problems`, ["Event", "Deployment", "Problem"], problems)
      : null,
  );
}
