// The rows of the map as a table that is filtered as one types. Only the lines that are visible are in the page.

import { element, fill, find, say } from "./elements.js";
import { VERDICTS } from "./mismatch.js";
import { count, number, roundedDown, roundedUp } from "./words.js";

const HEIGHT = 33; // pixels of a line, as in the style sheet
const VISIBLE = 12; // lines at a time, by the style sheet
const AROUND = 8; // lines that are kept above and below what is visible
const HEADER = ["State, action", "Distance", "Interval", "Visits", "Visits needed", "What is known"];

let grid = null;
let chosen = []; // the rows that pass the filters, in order
const body = element("tbody");

/** Set up the filters. Call once. */
export function startRows() {
  fill(
    find("rows-verdict"),
    element("option", { value: "" }, "all"),
    VERDICTS.map((one, index) => element("option", { value: String(index) }, one.words)),
  );
  const head = element("tr", { "aria-rowindex": "1" }, ...HEADER.map((text) => element("th", { scope: "col" }, text)));
  const view = element(
    "div",
    { class: "rows", tabindex: "0", role: "region", "aria-label": "Rows of the simulator" },
    element("table", { "aria-label": "Rows of the simulator" }, element("thead", {}, head), body),
  );
  fill(find("rows"), view);
  view.addEventListener("scroll", () => requestAnimationFrame(draw));
  for (const id of ["rows-search", "rows-verdict", "rows-order"]) {
    find(id).addEventListener("input", () => {
      view.scrollTop = 0;
      choose();
    });
  }
}

/** Show the rows of a map (see mismatch.js). */
export function showRows(found) {
  grid = found;
  choose();
}

function choose() {
  if (grid === null) return;
  const wanted = plain(find("rows-search").value);
  const verdict = find("rows-verdict").value;
  chosen = [];
  for (let row = 0; row < grid.verdict.length; row++) {
    if (verdict !== "" && grid.verdict[row] !== Number(verdict)) continue;
    if (wanted && !plain(grid.nameOf(row)).includes(wanted)) continue;
    chosen.push(row);
  }
  const key = find("rows-order").value;
  if (key !== "row") {
    // Never visited is the least distance; never cleared is the most visits.
    const missing = key === "visits_needed" ? Infinity : -1;
    const column = grid[key].map((value) => value ?? missing);
    chosen.sort((a, b) => (column[a] === column[b] ? a - b : column[b] - column[a]));
  }
  find("rows")
    .querySelector("table")
    .setAttribute("aria-rowcount", String(chosen.length + 1));
  say(find("rows-count"), `${count(chosen.length)} of ${count(grid.verdict.length)} rows`);
  draw();
}

/** A name as one would type it: no commas, no capitals. */
const plain = (name) =>
  name
    .toLowerCase()
    .replace(/[\s,]+/g, " ")
    .trim();

function draw() {
  const view = find("rows").firstElementChild;
  const first = Math.min(chosen.length, Math.max(0, Math.floor(view.scrollTop / HEIGHT) - AROUND));
  const last = Math.min(chosen.length, first + VISIBLE + 2 * AROUND);
  fill(
    body,
    gap(first),
    chosen.slice(first, last).map((row, index) => line(row, first + index)),
    gap(chosen.length - last),
  );
}

/** The lines that are not there, as one empty line of their height. */
function gap(lines) {
  if (!lines) return null;
  const cell = element("td", { colspan: String(HEADER.length) });
  cell.style.height = `${lines * HEIGHT}px`;
  return element("tr", { class: "gap", "aria-hidden": "true" }, cell);
}

function line(row, index) {
  const verdict = VERDICTS[grid.verdict[row]];
  const cells = [
    number(grid.distance[row], "not visited"),
    `${roundedDown(grid.lower[row])} to ${roundedUp(grid.upper[row])}`,
    count(grid.visits[row]),
    grid.visits_needed[row] === null ? "never" : count(grid.visits_needed[row]),
    `${verdict.mark} ${verdict.words}`,
  ];
  return element(
    "tr",
    { "aria-rowindex": String(index + 2) },
    element("th", { scope: "row" }, grid.nameOf(row)),
    ...cells.map((text) => element("td", {}, text)),
  );
}
