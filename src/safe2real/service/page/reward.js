// A reward from what a person typed or a file holds: nested lists [S, A] or [H, S, A].

/**
 * Read typed text: JSON, or lines "STATE = NUMBER" and "STATE, ACTION = NUMBER", by name or number; the rest is 0.
 *
 * @param {string} text what was typed.
 * @param {{states: number, actions: number, state_names: string[] | null, action_names: string[] | null}} model sizes and names.
 * @returns {number[][]} what the server is sent; it checks the numbers itself.
 */
export function rewardFromText(text, model) {
  const trimmed = text.trim();
  if (trimmed === "") throw new Error("The reward is empty; type a line such as STATE = 1, or choose a file.");
  if (trimmed.startsWith("[")) return fromJson(trimmed);
  const reward = Array.from({ length: model.states }, () => new Array(model.actions).fill(0));
  trimmed.split("\n").forEach((line, index) => {
    if (line.trim() === "") return;
    const where = `Line ${index + 1}`;
    const equals = line.lastIndexOf("=");
    const worth = equals < 0 ? NaN : Number(line.slice(equals + 1).trim() || NaN);
    if (!Number.isFinite(worth))
      throw new Error(`${where} is "${line.trim()}"; write STATE = NUMBER or STATE, ACTION = NUMBER.`);
    for (const [state, action] of pairs(line.slice(0, equals).trim(), model, where)) reward[state][action] = worth;
  });
  return reward;
}

/** Read a chosen file: .npy, or text as typed. */
export async function rewardFromFile(file, model) {
  if (file.name.toLowerCase().endsWith(".npy")) return fromNumpy(await file.arrayBuffer());
  return rewardFromText(await file.text(), model);
}

function pairs(name, model, where) {
  const all = Array.from({ length: model.actions }, (_, action) => action);
  const whole = indexOf(name, model.state_names, model.states); // a state's name may hold a comma
  if (whole !== null) return all.map((action) => [whole, action]);
  const comma = name.lastIndexOf(",");
  const state = comma < 0 ? null : indexOf(name.slice(0, comma).trim(), model.state_names, model.states);
  const action = comma < 0 ? null : indexOf(name.slice(comma + 1).trim(), model.action_names, model.actions);
  if (state === null || action === null)
    throw new Error(`${where}: "${name}" is no state, or state and action, of this model.`);
  return [[state, action]];
}

function indexOf(text, names, size) {
  const named = names ? names.indexOf(text) : -1;
  if (named >= 0) return named;
  const number = /^\d+$/.test(text) ? Number(text) : -1;
  return number >= 0 && number < size ? number : null;
}

function fromJson(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The reward is no JSON: ${error.message}`);
  }
}

const READERS = {
  "<f8": [8, "getFloat64"],
  "<f4": [4, "getFloat32"],
  "<i8": [8, "getBigInt64"],
  "<i4": [4, "getInt32"],
  "|i1": [1, "getInt8"],
  "|u1": [1, "getUint8"],
  "|b1": [1, "getUint8"],
};

/** NumPy's format: a magic word, a header in Python's syntax, then the numbers. Nothing is evaluated. */
export function fromNumpy(buffer) {
  const view = new DataView(buffer);
  const magic = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
  if (buffer.byteLength < 12 || magic.some((byte, index) => view.getUint8(index) !== byte))
    throw new Error("The file is no .npy file.");
  const wide = view.getUint8(6) > 1;
  const start = wide ? 12 : 10;
  const end = start + (wide ? view.getUint32(8, true) : view.getUint16(8, true));
  if (end > buffer.byteLength) throw new Error("The .npy file is cut short.");
  const header = new TextDecoder("latin1").decode(buffer.slice(start, end));
  const kind = /'descr': *'([^']+)'/.exec(header)?.[1];
  const shape = /'shape': *\(([^)]*)\)/
    .exec(header)?.[1]
    .split(",")
    .map((one) => one.trim())
    .filter(Boolean)
    .map(Number);
  if (!(kind in READERS) || !shape || /'fortran_order': *True/.test(header)) {
    throw new Error(
      `The .npy file holds ${kind ?? "something unknown"}; save numbers in C order, as numpy.ascontiguousarray(reward, float).`,
    );
  }
  const [size, read] = READERS[kind];
  const total = shape.reduce((a, b) => a * b, 1);
  if (end + size * total !== buffer.byteLength) throw new Error("The .npy file is not as long as its header says.");
  let place = end;
  const nested = (depth) => {
    if (depth < shape.length) return Array.from({ length: shape[depth] }, () => nested(depth + 1));
    const number = Number(view[read](place, true));
    place += size;
    return number;
  };
  return nested(0);
}
