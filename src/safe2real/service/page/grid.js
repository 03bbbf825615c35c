// The mismatch map as the server sends it, nested by step, state and action, laid flat: one number for each row.

import { VERDICTS } from "./mismatch.js";

/** Columns [R] of a map document, its shape, and `nameOf(row)`: its step where there are several, its state and its action. */
export function gridOf(map) {
  const shape = shapeOf(map.visits);
  const flat = (nested) => nested.flat(shape.length - 1);
  const numbers = new Map(VERDICTS.map((one, index) => [one.name, index]));
  const [states, actions] = shape.slice(-2);
  return {
    shape,
    states,
    actions,
    state_names: map.state_names,
    action_names: map.action_names,
    visits: flat(map.visits),
    distance: flat(map.distance),
    lower: flat(map.lower),
    upper: flat(map.upper),
    visits_needed: flat(map.visits_needed),
    verdict: flat(map.verdict).map((name) => numbers.get(name.toUpperCase())),
    nameOf(row) {
      const [state, action] = [Math.floor(row / actions) % states, row % actions];
      const step = shape.length === 3 ? `step ${Math.floor(row / (actions * states))}, ` : "";
      return `${step}${map.state_names?.[state] ?? `state ${state}`}, ${map.action_names?.[action] ?? `action ${action}`}`;
    },
  };
}

function shapeOf(nested) {
  return Array.isArray(nested) ? [nested.length, ...shapeOf(nested[0])] : [];
}
