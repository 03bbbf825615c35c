// Abandoned and withdrawn deployments, with their reasons.

import { request } from "./access.js";
import { element, fill, find, table } from "./elements.js";
import { count, moment, shortened } from "./words.js";

const MOST = 50;

/** Show the newest of them. */
export async function showGivenUp(path) {
  const found = await request(`${path}/deployments?outcome=abandoned,withdrawn&limit=${MOST}`);
  if (!found.total) {
    fill(find("given-up-list"), element("p", { class: "remark" }, "None."));
    return;
  }
  const rows = found.deployments.map((one) => [
    one.id,
    one.worker,
    moment(one.at),
    one.outcome,
    one.closed_at ? moment(one.closed_at) : "–",
    shortened(one.why_given_up),
  ]);
  const header = ["Deployment", "Worker", "Handed out (UTC)", "What", "When (UTC)", "Why"];
  fill(
    find("given-up-list"),
    element(
      "p",
      { class: "warning" },
      "The guarantee assumes that this had nothing to do with what happened in the episodes.",
    ),
    table(`${count(found.total)} in all, the newest first`, header, rows),
  );
}
