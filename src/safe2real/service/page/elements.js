// Building parts of the page. Texts become text nodes: what a record says is never read as HTML.

import { count } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children; a child that is null or false is left out. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for a drawing. */
export function drawing(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

export const find = (id) => document.getElementById(id);

/** Put `children` in the place of what `parent` holds. */
export function fill(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter(isThere));
}

/** ", 3 overdue" in the colour of a warning; nothing where none is. */
export function overdue(number) {
  return number ? [", ", element("strong", { class: "overdue-count" }, `${count(number)} overdue`)] : [];
}

/** Change a text only if it is another one, so that a screen reader does not say it again. */
export function say(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/**
 * A table; `header` has texts, `rows` are rows made already, or lists of cells, of which the first names its row.
 * `label` is read to screen readers where the caption has more than a text.
 */
export function table(caption, header, rows, label = caption) {
  const head = element("tr", {}, ...header.map((text) => element("th", { scope: "col" }, text)));
  const cell = (content, index) => (index ? element("td", {}, content) : element("th", { scope: "row" }, content));
  const body = rows.map((row) => (row instanceof Element ? row : element("tr", {}, ...row.map(cell))));
  // Wide tables scroll by themselves, also by keyboard.
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body)),
  );
}

/** A button that cannot be pressed twice while `action` runs; what goes wrong is shown in `problems`. */
export function whenPressed(button, problems, action) {
  button.addEventListener("click", () => runOnce(button, problems, action));
}

/** Run `action` with `button` disabled. */
export async function runOnce(button, problems, action) {
  button.disabled = true;
  fill(problems);
  try {
    await action();
  } catch (problem) {
    fill(problems, element("p", { class: "problem", role: "alert" }, problem.message));
  } finally {
    button.disabled = false;
  }
}

function filled(target, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) target.setAttribute(name, value === true ? "" : value);
  }
  target.append(...children.flat(Infinity).filter(isThere));
  return target;
}

function isThere(child) {
  return child !== null && child !== undefined && child !== false && child !== "";
}
