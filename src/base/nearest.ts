/** Longer names are compared by their beginnings, and further ones not at all: servers choose both. */
const MAX_LENGTH = 100;
const MAX_NAMES = 2000;
/** Below that, names have nothing to do with each other. */
const LEAST = 0.3;

/** Finds the names that look most like another one, by a likeness of 0 to 1. */
export function nearestNames(
  name: string,
  names: readonly string[],
  count: number,
  least: number = LEAST,
): string[] {
  const wanted = pairsOf(name);
  return names.slice(0, MAX_NAMES)
    .map((candidate) => ({ candidate, likeness: likeness(wanted, pairsOf(candidate)) }))
    .filter(({ likeness }) => likeness >= least)
    .sort((a, b) => b.likeness - a.likeness)
    .slice(0, count)
    .map(({ candidate }) => candidate);
}

/** The pairs of neighbouring letters and digits; those that begin and end a name count, too. */
function pairsOf(name: string): ReadonlySet<string> {
  const plain = `^${name.slice(0, MAX_LENGTH).toLowerCase().replaceAll(/[^a-z0-9]/g, "")}$`;
  return new Set(Array.from({ length: plain.length - 1 }, (_, at) => plain.slice(at, at + 2)));
}

/** How much two sets have in common, from 0 to 1 (Dice's coefficient). */
function likeness(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  return 2 * one.intersection(other).size / (one.size + other.size);
}
