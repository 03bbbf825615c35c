// What both pages have: the token, light or dark, who one is, an unlocked door, and whether the page is live.

import { element, fill, find, say } from "./elements.js";
import { forgetToken, hasToken, useToken } from "./access.js";
import { moment } from "./words.js";

const THEME = "safe2real-theme";
const NEXT = { light: "dark", dark: "light" };
const themeWatchers = [];

/** Set up what the header holds. Call once. */
export function startShell() {
  applyTheme();
  find("theme").addEventListener("click", () => {
    localStorage.setItem(THEME, NEXT[themeNow()]);
    applyTheme();
  });
  for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", applyTheme);
  find("forget").addEventListener("click", () => {
    forgetToken();
    location.reload();
  });
  find("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const token = find("token").value;
    if (token.trim() === "") return;
    useToken(token);
    location.reload();
  });
}

/** Call `watcher` when light turns to dark or back: a canvas does not follow the style sheet. */
export const onTheme = (watcher) => themeWatchers.push(watcher);

/** A colour of the style sheet, for a canvas. */
export function colour(name) {
  const probe = find("theme");
  probe.style.setProperty("outline-color", `var(--${name})`);
  const found = getComputedStyle(probe).outlineColor;
  probe.style.removeProperty("outline-color");
  return found;
}

/** Show who one is, and whether the door is open, as the server's whoami says. */
export function showAccess(caller) {
  find("open-door").hidden = caller.authentication;
  find("forget").hidden = !hasToken();
  say(find("who"), caller.authentication ? `${caller.name} (${caller.role})` : "");
}

/** Ask for a token where the server wants one; true if that was the problem. */
export function asksForToken(problem) {
  if (problem.status !== 401 && !(problem.status === 403 && !hasToken())) return false;
  find("token-section").hidden = false;
  find("content").hidden = true;
  say(find("token-problem"), hasToken() ? `The token was not accepted: ${problem.message}` : "");
  find("forget").hidden = !hasToken();
  find("token").focus();
  return true;
}

let lostSince = null;

/** Say whether what is shown is now, or how old it is. A page that stands still must not look like a calm campaign. */
export function showConnection(live, problem = null) {
  lostSince = live ? null : (lostSince ?? new Date().toISOString());
  document.body.dataset.live = String(live);
  const connection = find("connection");
  connection.className = live ? "connection live" : "connection lost";
  const why = problem === null ? "" : ` (${problem.message})`;
  const text = live ? "Live" : `NOT LIVE since ${moment(lostSince)} UTC${why}: what is shown is older. Trying again.`;
  if (connection.textContent.trim() !== text) {
    fill(connection, element("span", { class: "dot", "aria-hidden": "true" }), text);
  }
}

function themeNow() {
  if (matchMedia("print").matches) return "light"; // paper is
  const kept = localStorage.getItem(THEME);
  return kept in NEXT ? kept : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function applyTheme() {
  const theme = themeNow();
  document.documentElement.dataset.theme = theme;
  say(find("theme"), theme === "dark" ? "Light" : "Dark");
  find("theme").setAttribute("aria-label", `Show the page in ${NEXT[theme]} colours`);
  for (const watcher of themeWatchers) watcher();
}
