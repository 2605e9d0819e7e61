/** Limits on the length and number of names that are compared: servers choose both. */
const MAX_LENGTH = 100;
const MAX_NAMES = 2000;
/** Names less similar than this are unrelated. */
const LEAST = 0.3;

/** Finds the names most similar to a name. */
export function nearestNames(name: string, names: readonly string[], count: number): string[] {
  const wanted = pairsOf(name);
  return names.slice(0, MAX_NAMES)
    .map((candidate) => ({ candidate, likeness: likeness(wanted, pairsOf(candidate)) }))
    .filter(({ likeness }) => likeness >= LEAST)
    .sort((a, b) => b.likeness - a.likeness)
    .slice(0, count)
    .map(({ candidate }) => candidate);
}

/** Whether a name is one of the others with one or two typos; case and underscores do not count. */
export function isMisspelt(name: string, names: readonly string[]): boolean {
  const wrong = plainOf(name);
  const slips = wrong.length <= 5 ? 1 : 2;
  return names.slice(0, MAX_NAMES).some((right) => areAlike(wrong, plainOf(right), slips));
}

/** Whether at most `slips` missing, extra, wrong or swapped letters turn one text into the other. */
function areAlike(one: string, other: string, slips: number): boolean {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  const [left, right] = [one.slice(at), other.slice(at)];
  if (slips === 0 || left === right) return left === right;
  const isSwapped = left[0] === right[1] && left[1] === right[0];
  return areAlike(left.slice(1), right.slice(1), slips - 1) ||
    areAlike(left.slice(1), right, slips - 1) ||
    areAlike(left, right.slice(1), slips - 1) ||
    (isSwapped && areAlike(left.slice(2), right.slice(2), slips - 1));
}

/** The pairs of adjacent letters and digits, including those with the start and the end of the name. */
function pairsOf(name: string): ReadonlySet<string> {
  const plain = `^${plainOf(name)}$`;
  return new Set(Array.from({ length: plain.length - 1 }, (_, at) => plain.slice(at, at + 2)));
}

function plainOf(name: string): string {
  return name.slice(0, MAX_LENGTH).toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** The similarity of two sets, from 0 to 1 (Dice coefficient). */
function likeness(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  return 2 * one.intersection(other).size / (one.size + other.size);
}
