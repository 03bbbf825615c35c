// What a campaign is worth, by word, shape and colour at once, in the page, its title and its icon.

import { drawing, element } from "./elements.js";
import { ROOT } from "./access.js";

/** What each standing says. The shape differs as well as the colour, for eyes and printers that do not see it. */
const STANDINGS = {
  certified: { word: "Certified", sign: "✔", sentence: "Proved, if the assumptions below are true." },
  heuristic: { word: "Heuristic", sign: "~", sentence: "No guarantee: computed with constants that prove nothing." },
  incomplete: { word: "Incomplete", sign: "…", sentence: "No guarantee: something that the claim needs is not there." },
  refuted: { word: "Refuted", sign: "✖", sentence: "No guarantee: what happened contradicts an assumption." },
  unknown: { word: "Not known", sign: "?", sentence: "Nothing was heard from the server yet." },
};

const SHAPES = {
  certified: "M20 2 L36 8 V20 C36 29 29 35 20 38 C11 35 4 29 4 20 V8 Z", // a shield
  heuristic: "M20 3 L38 36 H2 Z", // a triangle
  incomplete: "M20 2 L38 20 L20 38 L2 20 Z", // a diamond
  refuted: "M13 2 H27 L38 13 V27 L27 38 H13 L2 27 V13 Z", // an octagon, as a stop sign
  unknown: "M4 4 H36 V36 H4 Z",
};

const MARKS = {
  certified: "M12 20 L18 26 L29 13",
  heuristic: "M11 27 C14 21 18 21 20 25 C22 29 26 29 29 23",
  incomplete: "M11 20 H13 M19 20 H21 M27 20 H29",
  refuted: "M13 13 L27 27 M27 13 L13 27",
  unknown: "M15 15 C15 9 25 9 25 15 C25 19 20 19 20 24 M20 29 V30",
};

const known = (standing) => (standing in STANDINGS ? standing : "unknown");

export const wordOf = (standing) => STANDINGS[known(standing)].word;
export const sentenceOf = (standing) => STANDINGS[known(standing)].sentence;

/** The shape of a standing; the word stands beside it, so it says nothing itself. */
export function shapeOf(standing) {
  const name = known(standing);
  return drawing(
    "svg",
    { viewBox: "0 0 40 40", class: `shape ${name}`, "aria-hidden": "true", focusable: "false" },
    drawing("path", { d: SHAPES[name], class: "outline" }),
    drawing("path", { d: MARKS[name], class: "mark" }),
  );
}

/** Shape and word in one line. */
export function badge(standing) {
  return element("span", { class: `badge ${known(standing)}` }, shapeOf(standing), wordOf(standing));
}

/** Let the whole page, its title and its icon in the list of tabs show a standing. */
export function wear(standing, halted, name) {
  const shown = known(standing);
  document.body.dataset.standing = shown;
  document.body.dataset.halted = String(halted);
  const word = halted ? "STOP THE MACHINE" : wordOf(shown).toUpperCase();
  const title = `${STANDINGS[shown].sign} ${word}: ${name} · safe2real`;
  if (document.title !== title) document.title = title;
  const icon = document.querySelector("link[rel=icon]");
  const address = `${ROOT}page/icons/${shown}.svg`;
  if (icon.getAttribute("href") !== address) icon.setAttribute("href", address);
}
