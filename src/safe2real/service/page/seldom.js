// Work that is asked for often and done now and then, so that a busy campaign does not make its page a burden to the server.

/**
 * A function that does `work` soon after it is called: at most once in `pause` milliseconds, never twice at once, and not
 * while the page is hidden. Work that takes long is done less often. After a failure it is done again.
 */
export function seldom(pause, work) {
  let earliest = 0;
  let wanted = false;
  let busy = false;

  async function start() {
    if (document.hidden) {
      busy = false; // `visibilitychange` starts it
      return;
    }
    wanted = false;
    const began = performance.now();
    try {
      await work();
    } catch (problem) {
      console.warn(problem.message);
      wanted = true;
    }
    const took = performance.now() - began;
    earliest = performance.now() + Math.max(pause, 5 * took);
    busy = false;
    if (wanted) arrange();
  }

  function arrange() {
    if (busy) return;
    busy = true;
    setTimeout(start, Math.max(50, earliest - performance.now()));
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && wanted) arrange();
  });
  return () => {
    wanted = true;
    arrange();
  };
}
