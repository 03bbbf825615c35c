// What was handed out, deployment after deployment: the proved bound beside its limit, what was observed, and the uncertainty.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { element, fill, find } from "./elements.js";
import { colour, onTheme } from "./shell.js";
import { count, number, roundedDown, roundedUp } from "./words.js";

const HEIGHT = 240;
const SINGLE = "A single one may lie on the unsafe side, which is shaded: the bound is about the expectation.";
const WHOLE = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat(); // there is no half deployment
const drawn = new Map(); // place -> {chart, data, shape}
let latest = null;

onTheme(() => {
  for (const { chart } of drawn.values()) chart.destroy();
  drawn.clear();
  if (latest) showCourse(...latest);
});
new ResizeObserver(() => {
  for (const [place, { chart }] of drawn) chart.setSize({ width: widthOf(place), height: HEIGHT });
}).observe(document.querySelector("main"));

/** Draw the course; `tolerance` is where the campaign stops, and only what is `certified` is called proved. */
export function showCourse(course, tolerance, certified) {
  latest = [course, tolerance, certified];
  if (!course.number.length) return;
  const same = (value) => course.number.map(() => value);
  draw(
    find("uncertainty-chart"),
    "log",
    [course.number, course.uncertainty, same(tolerance)],
    [line("uncertainty", "blue", 2), line("tolerance", "text", 1, [6, 4])],
  );
  const places = figures(course, certified);
  course.constraints.forEach((one, k) => {
    const bound = one.relation === "<=" ? "limit" : "threshold";
    const seen = one.observed?.some((value) => value !== null);
    const data = [course.number, one.proved, same(one.limit), ...(seen ? [one.observed] : [])];
    draw(
      places[k],
      "linear",
      data,
      [
        line(`expected ${one.relation}, as handed out`, "blue", 2),
        line(bound, "red", 1, [6, 4]),
        ...(seen ? [dots("observed in the episode", "orange")] : []),
      ],
      one,
    );
  });
}

/** One figure for each constraint, with what it shows in words. */
function figures({ constraints, total, number: drawnNumbers }, certified) {
  const few =
    total > drawnNumbers.length
      ? ` Drawn are the lowest and highest of ${count(total)} deployments, stretch by stretch.`
      : "";
  const parent = find("safety-charts");
  const texts = constraints.map((one) => `${one.name} ${one.relation} ${number(one.limit)}, in expectation`);
  if (parent.dataset.shown !== JSON.stringify(texts)) {
    parent.dataset.shown = JSON.stringify(texts);
    const made = texts.map((text, k) =>
      element(
        "figure",
        {},
        element("figcaption", {}, text),
        element("div", { class: "chart" }),
        element("p", { class: "remark", id: `safety-${k}` }),
      ),
    );
    const none = element("p", { class: "remark" }, "This system has no safety constraint.");
    fill(parent, made.length ? made : none);
  }
  constraints.forEach((one, k) => {
    fill(find(`safety-${k}`), inWords(one, certified) + few);
  });
  return [...parent.querySelectorAll(".chart")];
}

function inWords(one, certified) {
  const worst = one.relation === "<=" ? Math.max(...one.proved) : Math.min(...one.proved);
  const side = one.relation === "<=" ? "at most" : "at least";
  const safe = one.relation === "<=" ? roundedUp : roundedDown;
  const told = one.observed_count ?? 0;
  const seen = told
    ? ` Observed: ${number(one.observed_mean)} on average over ${count(told)} whole episodes. ${SINGLE}`
    : "";
  const bound = certified
    ? `Of every deployment so far it is proved that the expectation is ${side} ${safe(worst)}.`
    : `When they were handed out, the bounds on the expectation were ${side} ${safe(worst)}. They are NO GUARANTEE: see the standing above.`;
  return bound + seen;
}

function draw(place, scale, data, series, constraint = null) {
  const shape = JSON.stringify([scale, series.map((one) => one.label)]);
  const before = drawn.get(place);
  if (before?.shape === shape && place.isConnected) {
    before.chart.setData(data);
  } else {
    before?.chart.destroy();
    drawn.set(place, { shape, chart: new uPlot(options(place, scale, series, constraint), data, place) });
  }
  place.setAttribute("role", "img");
  const last = series.map((one, index) => `${one.label} ${number(lastOf(data[index + 1]), "none")}`);
  place.setAttribute("aria-label", `Chart over ${data[0].length} points. Last: ${last.join(", ")}.`);
}

const lastOf = (values) => values.findLast((value) => value !== null);
const widthOf = (place) => Math.max(240, place.clientWidth);

function options(place, scale, series, constraint) {
  const axis = { stroke: colour("text"), grid: { stroke: colour("line"), width: 0.5 }, ticks: { stroke: colour("line") } };
  return {
    width: widthOf(place),
    height: HEIGHT,
    scales: { x: { time: false }, y: scale === "log" ? { distr: 3 } : { range: withRoom } },
    axes: [
      { ...axis, label: "deployment", labelSize: 22, incrs: WHOLE },
      { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick, ""))) },
    ],
    series: [{ label: "deployment" }, ...series],
    cursor: { drag: { x: true, y: false } },
    hooks: { drawClear: constraint === null ? [] : [(chart) => shadeUnsafe(chart, constraint)] },
  };
}

/** The side of the limit on which no expectation may be. */
function shadeUnsafe(chart, { relation, limit }) {
  const { left, top, width, height } = chart.bbox;
  const at = Math.min(top + height, Math.max(top, chart.valToPos(limit, "y", true)));
  chart.ctx.save();
  chart.ctx.globalAlpha = 0.1;
  chart.ctx.fillStyle = colour("red");
  chart.ctx.fillRect(left, relation === "<=" ? top : at, width, relation === "<=" ? at - top : top + height - at);
  chart.ctx.restore();
}

/** Where all values are the same the axis needs some room all the same. */
function withRoom(_, low, high) {
  const room = high - low > 1e-6 ? 0.12 * (high - low) : 0.5;
  return [low - room, high + room];
}

const value = (_, shown) => number(shown, "–");
const line = (label, stroke, width, dash) => ({
  label,
  stroke: colour(stroke),
  width,
  dash,
  value,
  spanGaps: true,
  points: { show: false },
});
const dots = (label, stroke) => ({
  label,
  stroke: colour(stroke),
  fill: colour(stroke),
  value,
  width: 0,
  paths: () => null,
  points: { show: true, size: 4, fill: colour(stroke) },
});
