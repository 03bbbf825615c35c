// Where the campaign stands, as it arrives: banner, numbers, notices, assumptions and rewards.

import { now } from "./access.js";
import { element, fill, find, overdue, say, table } from "./elements.js";
import { sentenceOf, shapeOf, wear, wordOf } from "./standing.js";
import { count, moment, number, roughly, roundedDown, roundedUp } from "./words.js";

const MACHINES = 20; // named in the banner

/** Show a status document of the campaign that the service calls `name`. */
export function showStatus(status, name) {
  wear(status.standing, status.halted, name);
  showStanding(status);
  showNumbers(status);
  fill(
    find("notices"),
    status.notices.map((text) => element("li", {}, text)),
  );
  say(find("assumptions-title"), status.certified ? "What the guarantee rests on" : "What was assumed");
  fill(
    find("assumption-list"),
    status.assurance.assumptions.map((one) => element("li", {}, element("code", {}, one.code), ` ${one.text}`)),
  );
  say(find("last-event"), count(status.events));
  say(find("as-of"), moment(now()));
  say(find("digest"), status.head);
  say(find("record"), status.campaign);
  showRewards(status.rewards);
}

function showStanding(status) {
  const title = find("standing-title");
  if (title.textContent !== wordOf(status.standing)) {
    say(title, wordOf(status.standing));
    fill(find("standing-shape"), shapeOf(status.standing));
  }
  const sure = status.failure < 1
    ? ` With probability at least ${roundedDown(100 * (1 - status.failure))} %, every mixture that is handed out keeps:`
    : "";
  say(find("standing-sentence"), `${sentenceOf(status.standing)}${status.certified ? sure : ""}`);
  find("asked-for").hidden = status.certified;
  fill(
    find("requirements"),
    status.constraints.map((text) => element("li", {}, text)),
  );
  fill(
    find("doubts"),
    status.assurance.doubts.map((one) => element("li", {}, one.text)),
  );
  showWhatToDo(status);
  const halted = find("halted");
  halted.hidden = !status.halted;
  if (status.halted && !halted.hasChildNodes()) {
    const why = status.assurance.doubts.filter((one) => one.code === "margin-refuted").map((one) => one.text);
    fill(
      halted,
      element("strong", {}, "STOP THE MACHINE"),
      `The baseline itself is not as safe as was stated${why.length ? `: ${why.join("; ")}` : ""}. Nothing is handed out any more. Tell what is still out.`,
    );
  }
}

/** After a refutation: what is handed out now, which machines run what is not certified any more, how to stop them. */
function showWhatToDo(status) {
  find("what-to-do").hidden = status.standing !== "refuted";
  if (status.standing !== "refuted") return;
  const refuted = new Set(status.uncertified);
  const machines = status.held.filter((one) => refuted.has(one.id));
  const more = machines.length > MACHINES && `and ${count(machines.length - MACHINES)} more: see below`;
  fill(
    find("what-to-do-list"),
    element(
      "li",
      {},
      status.halted
        ? "Handed out now: nothing, not even the baseline."
        : "Handed out now: the baseline alone, without a guarantee. Decide whether machines may go on with it.",
    ),
    machines.length
      ? element(
          "li",
          {},
          element("strong", {}, `Stop ${machines.length === 1 ? "this machine" : "these machines"} now. `),
          "The data refute what is run there:",
          element(
            "ul",
            {},
            ...machines.slice(0, MACHINES).map((one) => element("li", {}, `${one.worker} (${one.id})`)),
            more && element("li", {}, element("a", { href: "#out" }, more)),
          ),
          "The service cannot stop a machine: stop it on site. When its worker asks next, the deployment is withdrawn and named in the answer (withdrawn). Tell what has run of it.",
        )
      : element("li", {}, "No machine holds a deployment that rests on what is refuted."),
    element(
      "li",
      {},
      "Find the cause, correct the assumption, and begin a new campaign with the episodes of this one: ",
      element("code", {}, "safe2real campaign import NEW --from OLD"),
      ". This campaign stays refuted.",
    ),
  );
}

function showNumbers(status) {
  const numbers = {
    State: status.halted
      ? "Halted: stop the machine"
      : status.stopped
        ? "Stopped: plan now"
        : `Next: ${status.next_reason.toLowerCase()}`,
    "Deployments handed out": count(status.rounds),
    "Episodes told": `${count(status.told)}${status.cut_short ? `, ${count(status.cut_short)} cut short` : ""}`,
    "Samples recorded": count(status.samples),
    "Uncertainty, tolerance": `${number(status.uncertainty)}, ${number(status.tolerance)}`,
    "Rows in doubt": `${count(status.suspects)} of ${count(status.rows)}`,
    Out: [count(status.held.length), ...overdue(status.overdue.length)],
    "Waiting to be counted": count(status.episodes_waiting),
    "Abandoned, withdrawn": `${count(status.abandoned)}, ${count(status.withdrawn)}`,
    ...(status.imported ? { "Episodes imported": count(status.imported) } : {}),
    ...(status.left_model ? { "Left the model": count(status.left_model) } : {}),
  };
  fill(
    find("numbers"),
    Object.entries(numbers).map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

/** What a rehearsal expects, with how far it is to be relied on. */
export function showForecast(status) {
  const forecast = status.forecast;
  if (!forecast) return;
  const expected =
    forecast.rounds === null
      ? "The stop was not reached in a rehearsal."
      : forecast.rounds === 0
        ? "Nothing more is needed: the tolerance is reached."
        : `Expected until the stop: ${roughly(forecast.rounds, "deployment")}, ${roughly(forecast.samples, "sample")}.`;
  say(
    find("forecast"),
    `${expected} ${forecast.caution ? `This is ${forecast.caution}.` : ""} No promise; as of event ${count(status.events)}.`,
  );
  say(find("forecast-again"), "Compute the forecast again");
}

function showRewards(rewards) {
  find("rewards").hidden = !rewards.length;
  const rows = rewards.map((one) => [
    one.name,
    roundedDown(one.lower),
    roundedUp(one.upper),
    roundedUp(one.upper - one.lower),
    number(one.allowed),
    one.accurate ? "yes" : "not yet",
  ]);
  const header = ["Reward", "At least", "At most", "Apart", "Asked for", "Accurate"];
  if (rows.length) fill(find("rewards-list"), table("What the best safe policy is worth", header, rows));
}
