// The page of one campaign: everything follows from the stream; what is costly is asked for again only now and then.

import { request } from "./access.js";
import { showCourse } from "./course.js";
import { find, say, whenPressed } from "./elements.js";
import { restartEvents, showEvent } from "./events.js";
import { showGivenUp } from "./given_up.js";
import { allowAbandoning, overdueNow, showHeld, startHeld } from "./held.js";
import { showForecast, showStatus } from "./live.js";
import { gridOf } from "./grid.js";
import { showMap, startMap } from "./mismatch.js";
import { startPlans } from "./plans.js";
import { showRows, startRows } from "./rows.js";
import { seldom } from "./seldom.js";
import { asksForToken, showAccess, showConnection, startShell } from "./shell.js";
import { follow } from "./stream.js";
import { startVerify } from "./verify.js";
import { count } from "./words.js";

const name = decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1));
const path = `/campaigns/${encodeURIComponent(name)}`;
const SMALL = 50_000; // states x actions x steps; the forecast of a larger model would be a burden to the server
let grid = null; // the mismatch map, with the sizes and names of the model
let latest = null; // status
const again = {
  course: seldom(1_500, async () => showCourse(await request(`${path}/course`), latest.tolerance, latest.certified)),
  map: seldom(5_000, readMap),
  givenUp: seldom(1_500, () => showGivenUp(path)),
  forecast: seldom(600_000, forecastIfSmall),
};

startShell();
say(find("name"), `Campaign ${name}`);
begin();

async function begin() {
  try {
    const caller = await request("/whoami");
    showAccess(caller);
    allowAbandoning(caller.role === "operator");
    say(find("version"), `Safe2real ${caller.version}.`);
    onStatus(await request(`${path}/status`));
  } catch (problem) {
    showConnection(false, problem);
    if (!asksForToken(problem)) setTimeout(begin, 3_000);
    return;
  }
  startHeld(path);
  startMap();
  startRows();
  startPlans(path, async () => {
    if (grid === null) await readMap();
    return grid;
  });
  startVerify(path);
  for (const ask of Object.values(again)) ask();
  setInterval(() => overdueNow(latest).length !== latest.overdue.length && onStatus(latest), 1_000);
  whenPressed(find("forecast-again"), find("forecast-problem"), readForecast);
  await follow(`${path}/stream`, onMessage, (live, problem) => {
    showConnection(live, problem);
    if (problem !== null) asksForToken(problem);
  });
}

async function readMap() {
  grid = gridOf(await request(`${path}/map`));
  showMap(grid);
  showRows(grid);
}

async function forecastIfSmall() {
  if (latest.states * latest.actions * latest.horizon <= SMALL) await readForecast();
  else if (find("forecast").textContent === "")
    say(find("forecast"), "The forecast of a large model takes a while: ask for it.");
}

async function readForecast() {
  showForecast(await request(`${path}/status?forecast=true`));
}

function onMessage(kind, data) {
  if (kind === "status") onStatus(data);
  else if (kind === "alive") {
    // Thrown to `follow`, which says so and connects again: a page that shows another record must not look live.
    if (data.head !== latest.head)
      throw new Error(`the record ends with another event (${count(data.events)}) than this page shows`);
  } else if (kind === "restart") {
    restartEvents();
    for (const ask of Object.values(again)) ask();
  } else if (kind === "record") {
    showEvent(data);
    again.course();
    again.map();
    again.forecast();
    if (["abandon", "withdraw", "tell"].includes(data.kind)) again.givenUp();
  }
}

function onStatus(status) {
  const worth = `${latest?.standing}`;
  latest = { ...status, overdue: overdueNow(status) };
  showStatus(latest, name);
  showHeld(latest);
  if (worth !== latest.standing) again.course(); // what is called proved changes with the standing
}
