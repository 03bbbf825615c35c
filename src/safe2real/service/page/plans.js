// A plan for a reward that is typed or in a file: what it earns at least, what it may miss, and what it is worth.

import { request } from "./access.js";
import { drawing, element, fill, find, runOnce } from "./elements.js";
import { rewardFromFile, rewardFromText } from "./reward.js";
import { badge } from "./standing.js";
import { number, roundedDown, roundedUp } from "./words.js";

const [WIDE, HIGH] = [300, 26]; // of the drawing of an interval

/** Set up the form. `model()` gives sizes and names of the campaign's model. */
export function startPlans(path, model) {
  find("plan-form").addEventListener("submit", (event) => {
    event.preventDefault();
    runOnce(find("plan-button"), find("plan-problem"), async () => {
      fill(find("plan-result"));
      const file = find("reward-file").files[0];
      const reward = file ? await rewardFromFile(file, await model()) : rewardFromText(find("reward").value, await model());
      show(await request(`${path}/plan`, { method: "POST", body: { reward } }));
    });
  });
}

function show(plan) {
  const certificate = plan.certificate;
  const [proved, said] = certificate.certified
    ? ["Proved", (words) => words]
    : ["Computed, NO GUARANTEE", (words) => `Computed: ${words[0].toLowerCase()}${words.slice(1)}`];
  const [least, most] = [roundedDown(plan.value), roundedUp(plan.bound)];
  const advice = certificate.holds
    ? "Draw one of its policies with the given weights before each episode, and run it to the end."
    : "DO NOT USE IT: no policy was found that is proved to keep every constraint.";
  fill(
    find("plan-result"),
    element("p", {}, badge(certificate.standing), ` ${advice}`),
    element(
      "dl",
      { class: "numbers" },
      ...entry(said("Earns at least"), least),
      ...entry(said("No safe policy earns more than"), most),
      ...entry(said("From the best, at most"), roundedUp(plan.suboptimality)),
      ...entry("Policies in the mixture", String(plan.policy.weights?.length ?? 1)),
    ),
    interval(plan, `The best safe policy earns between ${least} and ${most}${certificate.certified ? "" : ", by computation alone"}`),
    element("ul", {}, ...certificate.constraints.map((one) => element("li", {}, `${proved}: ${one.statement}`))),
    element("ul", {}, ...certificate.doubts.map((one) => element("li", { class: "problem" }, one.text))),
    element(
      "details",
      {},
      element("summary", {}, `What this rests on (${certificate.assumptions.length})`),
      element("ul", {}, ...certificate.assumptions.map((one) => element("li", {}, element("code", {}, one.code), ` ${one.text}`))),
    ),
    element("p", {}, kept(plan)),
  );
}

/** What the best safe policy earns, between two bounds, on a line from 0 to the larger of them. */
function interval(plan, words) {
  if (!plan.certificate.holds || plan.value === null || plan.bound === null || !(plan.bound > 0)) return null;
  const at = (value) => (Math.max(0, value) / plan.bound) * (WIDE - 4) + 2;
  const [low, high] = [at(plan.value), at(plan.bound)];
  return element(
    "figure",
    { class: "interval" },
    drawing(
      "svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": words },
      drawing("line", { x1: 0, x2: WIDE, y1: HIGH / 2, y2: HIGH / 2, class: "axis" }),
      drawing("rect", { x: low, width: Math.max(2, high - low), y: HIGH / 4, height: HIGH / 2 }),
      drawing("line", { x1: low, x2: low, y1: 1, y2: HIGH - 1, class: "end" }),
      drawing("line", { x1: high, x2: high, y1: 1, y2: HIGH - 1, class: "end" }),
    ),
    element("figcaption", { class: "remark" }, `${words}. The line begins at 0.`),
  );
}

const entry = (name, value) => [element("div", {}, element("dt", {}, name), element("dd", {}, value))];

function kept(plan) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(plan)], { type: "application/json" }));
  return element("a", { href: address, download: "plan.json" }, "Keep the plan (plan.json)");
}
