// A plan for a reward that is typed or in a file: what it earns at least, what it may miss, and what it is worth.

import { request } from "./access.js";
import { element, fill, find, runOnce } from "./elements.js";
import { rewardFromFile, rewardFromText } from "./reward.js";
import { badge } from "./standing.js";
import { number } from "./words.js";

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
  const advice = certificate.holds
    ? "Draw one of its policies with the given weights before each episode, and run it to the end."
    : "DO NOT USE IT: no policy was found that is proved to keep every constraint.";
  fill(
    find("plan-result"),
    element("p", {}, badge(certificate.standing), ` ${advice}`),
    element(
      "dl",
      { class: "numbers" },
      ...entry("Earns at least", number(plan.value)),
      ...entry("No safe policy earns more than", number(plan.bound)),
      ...entry("From the best, at most", number(plan.suboptimality)),
      ...entry("Policies in the mixture", String(plan.policy.weights?.length ?? 1)),
    ),
    element("ul", {}, ...certificate.constraints.map((one) => element("li", {}, `Proved: ${one.statement}`))),
    element("ul", {}, ...certificate.doubts.map((one) => element("li", { class: "problem" }, one.text))),
    element("p", {}, kept(plan)),
  );
}

const entry = (name, value) => [element("div", {}, element("dt", {}, name), element("dd", {}, value))];

function kept(plan) {
  const address = URL.createObjectURL(new Blob([JSON.stringify(plan)], { type: "application/json" }));
  return element("a", { href: address, download: "plan.json" }, "Keep the plan (plan.json)");
}
