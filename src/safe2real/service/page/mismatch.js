// The mismatch map: one cell for each row of the simulator, in the model's order, however many there are.
// A canvas as large as what is visible is drawn anew while one scrolls, so a million cells cost no more than a screen.

import { element, fill, find, say } from "./elements.js";
import { colour, onTheme } from "./shell.js";
import { count, number } from "./words.js";

/** By the number of the verdict: its name, what it means, its colour, and its mark on cells that are large enough. */
export const VERDICTS = [
  { name: "OPEN", words: "open: may be right or wrong", colour: "line", mark: "·" },
  { name: "WRONG", words: "wrong", colour: "orange", mark: "✖" },
  { name: "CLEARED", words: "cleared: as the simulator says", colour: "green", mark: "✓" },
  { name: "KNOWN", words: "declared exact", colour: "blue", mark: "=" },
  { name: "CONTRADICTED", words: "contradicts an assumption", colour: "red", mark: "!" },
];
const SIZES = [4, 6, 9, 14, 20, 28];
const MARKED_FROM = 14;
const TALLEST = 320; // pixels; more than that scrolls

let grid = null; // see grid.js
let size = 0; // index into SIZES
let cursor = null; // the row that is pointed at
const canvas = element("canvas", { "aria-hidden": "true" });
const spacer = element("div");

/** Set up the map. Call once. */
export function startMap() {
  const view = find("map");
  view.append(canvas, spacer);
  view.addEventListener("scroll", () => requestAnimationFrame(draw));
  view.addEventListener("pointermove", (event) => point(event));
  view.addEventListener("pointerdown", (event) => point(event));
  view.addEventListener("keydown", move);
  find("map-larger").addEventListener("click", () => zoom(1));
  find("map-smaller").addEventListener("click", () => zoom(-1));
  find("map-colour").addEventListener("change", draw);
  new ResizeObserver(draw).observe(view);
  onTheme(() => {
    legend();
    draw();
  });
}

/** Show a map. */
export function showMap(found) {
  const first = grid === null;
  grid = found;
  // The largest cells with which the whole map is visible.
  if (first)
    size = Math.max(
      0,
      SIZES.findLastIndex((_, index) => heightAt(index) <= TALLEST),
    );
  legend();
  draw();
  if (cursor !== null) tell();
}

/** The cells in one line: whole states, so that the actions of one stand together. */
function columns(index = size) {
  const fit = Math.floor(find("map").clientWidth / SIZES[index]);
  return Math.max(grid.actions, Math.floor(fit / grid.actions) * grid.actions);
}

const heightAt = (index) => Math.ceil(grid.verdict.length / columns(index)) * SIZES[index];

function draw() {
  if (grid === null) return;
  const view = find("map");
  const cell = SIZES[size];
  const wide = columns();
  const lines = Math.ceil(grid.verdict.length / wide);
  view.style.height = `${Math.min(TALLEST, lines * cell) + 2}px`;
  const [width, height] = [view.clientWidth, Math.min(view.clientHeight, lines * cell)];
  const scale = devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  spacer.style.height = `${Math.max(0, lines * cell - height)}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const paint = painter();
  const first = Math.floor(view.scrollTop / cell);
  const shift = first * cell - view.scrollTop;
  const gap = cell > 6 ? 1 : 0;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.font = `${Math.floor(0.7 * cell)}px system-ui, sans-serif`;
  for (let line = first; line < lines && (line - first) * cell + shift < height; line++) {
    const end = Math.min(grid.verdict.length, (line + 1) * wide);
    for (let row = line * wide; row < end; row++) {
      const [x, y] = [(row % wide) * cell, (line - first) * cell + shift];
      pen.fillStyle = paint.fill(row);
      pen.fillRect(x, y, cell - gap, cell - gap);
      if (cell >= MARKED_FROM) {
        pen.fillStyle = paint.ink;
        pen.fillText(VERDICTS[grid.verdict[row]].mark, x + cell / 2, y + cell / 2);
      }
      if (row === cursor) {
        pen.strokeStyle = paint.text;
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
      }
    }
  }
}

/** Which colour a row has: by what is known of it, or by how far it is. */
function painter() {
  const byVerdict = VERDICTS.map((one) => colour(one.colour));
  const [near, far, text, ink] = [colour("raised"), colour("orange"), colour("text"), colour("ground")];
  if (find("map-colour").value === "verdict") return { fill: (row) => byVerdict[grid.verdict[row]], text, ink };
  const steps = Array.from({ length: 11 }, (_, index) => `color-mix(in srgb, ${far} ${10 * index}%, ${near})`);
  return { fill: (row) => steps[Math.round(10 * (grid.distance[row] ?? 0))], text, ink: text };
}

function legend() {
  if (grid === null) return;
  const found = new Array(VERDICTS.length).fill(0);
  for (const verdict of grid.verdict) found[verdict]++;
  fill(
    find("verdicts"),
    VERDICTS.map((one, index) => {
      const sample = element("canvas", { width: "18", height: "18", "aria-hidden": "true" });
      const pen = sample.getContext("2d");
      pen.fillStyle = colour(one.colour);
      pen.fillRect(0, 0, 18, 18);
      pen.fillStyle = colour("ground");
      pen.font = "14px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.fillText(one.mark, 9, 14);
      return element("li", {}, sample, `${count(found[index])} ${one.words}`);
    }),
  );
}

function point(event) {
  if (grid === null) return;
  const frame = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - frame.left, event.clientY - frame.top + find("map").scrollTop];
  const [column, wide] = [Math.floor(x / SIZES[size]), columns()];
  const row = Math.floor(y / SIZES[size]) * wide + column;
  if (column < 0 || column >= wide || row < 0 || row >= grid.verdict.length || row === cursor) return;
  cursor = row;
  tell();
  draw();
}

function move(event) {
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() };
  if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 1 : -1);
  else if (event.key in steps && grid !== null) {
    const next = cursor === null ? 0 : cursor + steps[event.key];
    if (next >= 0 && next < grid.verdict.length) cursor = next;
    intoView();
    tell();
    draw();
  } else return;
  event.preventDefault();
}

function intoView() {
  const [view, cell] = [find("map"), SIZES[size]];
  const top = Math.floor(cursor / columns()) * cell;
  if (top < view.scrollTop) view.scrollTop = top;
  else if (top + cell > view.scrollTop + view.clientHeight) view.scrollTop = top + cell - view.clientHeight;
}

function zoom(by) {
  size = Math.min(SIZES.length - 1, Math.max(0, size + by));
  if (cursor !== null) intoView();
  draw();
}

function tell() {
  const distance = grid.distance[cursor];
  const far = distance === null ? "never visited" : `estimated distance ${number(distance)}`;
  say(find("map-row"), `${grid.nameOf(cursor)}: ${VERDICTS[grid.verdict[cursor]].words}, ${far}.`);
}
