import { isRecord } from "./record.ts";

/** Weighs a value parsed from JSON. Nesting costs no stack. */
export function weightOf(value: unknown, limit: number = Infinity): number {
  let weight = 0;
  const rest: unknown[] = [value];
  for (let next = rest.pop(); next !== undefined && weight <= limit; next = rest.pop()) {
    weight += VALUE_BYTES;
    if (typeof next === "string") weight += stringBytes(next);
    else if (Array.isArray(next)) { for (const inner of next) rest.push(inner); }
    else if (isRecord(next)) {
      for (const name of Object.keys(next)) {
        weight += VALUE_BYTES + stringBytes(name);
        rest.push(next[name]);
      }
    }
  }
  return weight;
}

/** What a value takes besides its text; numbers in a list take less, and empty objects as much. */
const VALUE_BYTES = 64;

/** V8 keeps a string in bytes where it can. */
function stringBytes(text: string): number {
  return WIDE.test(text) ? 2 * text.length : text.length;
}

const WIDE = /[\u0100-\uffff]/;
