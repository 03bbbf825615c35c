// Numbers and times as people read them.

const counts = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const count = (number) => counts.format(number);

/** "1 episode", "1,234 episodes". */
export const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** Four significant digits; null is what has no bound. */
export function number(value, missing = "unbounded") {
  if (value === null || value === undefined || !Number.isFinite(value)) return missing;
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

export const share = (value) => `${number(100 * value)} %`;

/** A moment in UTC, to the second. */
export function moment(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? String(text) : at.toISOString().slice(0, 19).replace("T", " ");
}

/** How long ago that was: seconds, minutes, hours, days. */
export function since(text, now) {
  const seconds = (now - new Date(text).getTime()) / 1000;
  if (!Number.isFinite(seconds)) return "unknown";
  return duration(Math.max(0, seconds));
}

export function duration(seconds) {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} hours`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

/** At most `length` characters, so that one text cannot fill the page. */
export const shortened = (text, length = 200) => (text.length > length ? `${text.slice(0, length)}…` : text);
