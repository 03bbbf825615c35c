// Numbers and times as people read them.

const counts = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const count = (number) => counts.format(number);

/** "1 episode", "1,234 episodes". */
export const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** A forecast in two significant digits, rounded up: "about 48,000 rounds", "about 38 million samples". */
export function roughly(value, word) {
  const whole = Math.ceil(value);
  const unit = 10 ** Math.max(0, String(whole).length - 2);
  const rounded = Math.ceil(whole / unit) * unit;
  const [scale, name] = rounded >= 1e9 ? [1e9, " billion"] : rounded >= 1e6 ? [1e6, " million"] : [1, ""];
  const said = scale === 1 ? count(rounded) : String(Number((rounded / scale).toPrecision(10)));
  return `about ${said}${name} ${word}${rounded === 1 ? "" : "s"}`;
}

/** Four significant digits; null is what has no bound. */
export function number(value, missing = "unbounded") {
  if (value === null || value === undefined || !Number.isFinite(value)) return missing;
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}

/** The same for a lower bound, which is never shown as more than it is, and for an upper bound, never as less. */
export const roundedDown = (value) => number(towards(value, Math.floor));
export const roundedUp = (value) => number(towards(value, Math.ceil));

function towards(value, rounded) {
  if (value === null || !Number.isFinite(value) || value === 0) return value;
  const digits = Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6 ? 3 : 4; // as `number` shows them
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) + 1 - digits);
  const found = rounded(value / unit) * unit;
  // What is a round number already, but for the last bit of a float, stays what it is.
  return Math.abs(Math.round(value / unit) - value / unit) < 1e-9 ? value : found;
}

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
