import { namesIn } from "../../json/document.ts";
import {
  type ExactJson,
  type ExactObject,
  isExactList,
  isExactObject,
  isRawNumber,
  type RawNumber,
  stringifyExact,
} from "../../json/exact.ts";
import type { ApprovalCall } from "../request.ts";
import {
  all,
  any,
  cleanPath,
  hasParentPart,
  many,
  type Match,
  matchesGlob,
  MAX_TEXT,
  not,
  sure,
  urlText,
} from "./match.ts";
import type { PathJudge } from "./paths.ts";
import type { ArgumentCondition, ArgumentTest, PolicyValue } from "./schema.ts";

/** Matches a call's arguments. */
export function matchArguments(
  conditions: Readonly<Record<string, ArgumentCondition>>,
  args: ExactObject,
  paths: PathJudge,
): Match {
  return all(
    Object.entries(conditions).map(([pointer, condition]) => {
      const value = resolvePointer(args, pointer);
      return value === UNKNOWN ? "maybe" : matchValue(condition, value, paths);
    }),
  );
}

/** The folders that a condition names. */
export function foldersOf(condition: ArgumentCondition): readonly string[] {
  if (typeof condition !== "object" || condition === null) return [];
  const { path = [], each, some, not } = condition;
  return [
    ...many(path),
    ...[each, some, not].flatMap((inner) => inner === undefined ? [] : foldersOf(inner)),
  ];
}

/**
 * Known only to the server: many read `'{"a": 1}'` like `{"a": 1}`, and Go's decoder `"A"` like
 * `"a"`.
 */
const UNKNOWN = Symbol("unknown");

/** A value that a pointer or a name leads to. */
type Found = ExactJson | undefined | typeof UNKNOWN;

/** Resolves a JSON pointer. */
function resolvePointer(root: ExactJson, pointer: string): Found {
  let value: Found = root;
  for (const key of namesIn(pointer)) {
    if (value === undefined || value === UNKNOWN) return value;
    if (value === null) return undefined;
    if (isExactObject(value)) value = memberOf(value, key);
    else value = isExactList(value) && INDEX.test(key) ? value[Number(key)] : UNKNOWN;
  }
  return value;
}

/**
 * Whether conditions refer to given arguments that the tool does not take: the server ignores
 * those.
 */
export function areOnIgnored(
  conditions: Readonly<Record<string, ArgumentCondition>>,
  { arguments: args, parameters }: Pick<ApprovalCall, "arguments" | "parameters">,
): boolean {
  if (parameters === undefined) return false;
  return Object.keys(conditions).some((pointer) => {
    const [name] = namesIn(pointer);
    return name !== undefined && Object.hasOwn(args, name) && !parameters.has(name);
  });
}

const INDEX = /^(0|[1-9]\d*)$/;

/** The member of an object, unless servers may read another member instead, or inherit it. */
function memberOf(object: ExactObject, name: string): Found {
  const wanted = folded(name);
  const isOther = (given: string) =>
    given !== name &&
    (given === "__proto__" || (given.length <= 2 * name.length && folded(given) === wanted));
  if (Object.keys(object).some(isOther)) return UNKNOWN;
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/**
 * Equal for `file_path`, `filePath` and `FilePath`, and for letters that Go equates with ASCII
 * letters.
 */
function folded(name: string): string {
  return name.replace(/[_-]/g, "").toLowerCase().toUpperCase();
}

function matchValue(
  condition: ArgumentCondition,
  value: ExactJson | undefined,
  paths: PathJudge,
): Match {
  if (typeof condition !== "object" || condition === null) {
    return value === undefined ? "no" : equal(condition, value);
  }
  return all(testsOf(condition, value, paths));
}

function* testsOf(
  test: ArgumentTest,
  value: ExactJson | undefined,
  paths: PathJudge,
): Generator<Match> {
  const { equals, oneOf, glob, prefix, path, min, max, each, some, exists } = test;
  if (exists !== undefined) yield sure((value !== undefined) === exists);
  const only = Object.values(test).filter((given) => given !== undefined).length === 1;
  if (value === undefined) {
    if (!only || exists === undefined) yield "no";
    return;
  }
  if (equals !== undefined) yield equal(equals, value);
  if (oneOf !== undefined) yield any(oneOf.values().map((one) => equal(one, value)));
  if (glob !== undefined) yield matchText(value, many(glob), matchesGlob);
  if (prefix !== undefined) {
    const matches = (start: string, text: string) => sure(text.startsWith(start));
    yield matchText(value, many(prefix), matches);
  }
  if (path !== undefined) {
    yield typeof value === "string"
      ? any(many(path).values().map((folder) => paths.isInside(value, folder)))
      : otherKind(value);
  }
  if (min !== undefined) yield matchNumber(value, (number) => compare(number, min) >= 0);
  if (max !== undefined) yield matchNumber(value, (number) => compare(number, max) <= 0);
  const items = isExactList(value) && !isTooLong(value) ? value : undefined;
  if (each !== undefined) {
    yield items === undefined
      ? otherKind(value)
      : all(items.values().map((item) => matchValue(each, item, paths)));
  }
  if (some !== undefined) {
    yield items === undefined
      ? otherKind(value)
      : any(items.values().map((item) => matchValue(some, item, paths)));
  }
  if (test.not !== undefined) yield not(matchValue(test.not, value, paths));
}

/** How many characters an item counts as: a list with more than {@linkcode MAX_TEXT} is not examined. */
const ITEM_SIZE = 32;

function isTooLong(list: readonly ExactJson[]): boolean {
  const sizes = list.map((item) => ITEM_SIZE + (typeof item === "string" ? item.length : 0));
  return sizes.reduce((sum, size) => sum + size, 0) > MAX_TEXT;
}

function matchNumber(value: ExactJson, holds: (number: number | RawNumber) => boolean): Match {
  return isNumber(value) ? sure(holds(value)) : otherKind(value);
}

/** The match of a value of another type: only the server knows how it reads `"5"` for a number. */
function otherKind(value: ExactJson): Match {
  return value === null ? "no" : "maybe";
}

/** Text that servers may read as JSON. Texts with many blanks, which code can send, are not searched. */
const LIKE_JSON = /^(?:\s{64}|\s*(?:[[{]|null(?:\s{64}|\s*$)))/;

/**
 * The match of a text that does not match as it is: many servers parse it as JSON if that fits
 * better.
 */
function otherText(text: string): Match {
  return LIKE_JSON.test(text) ? "maybe" : "no";
}

/** Matches a text. `..` makes its beginning meaningless, and `//etc` leads where `/etc` does, `HTTP:x` where `http://x/`. */
function matchText(
  value: ExactJson,
  patterns: readonly string[],
  matches: (pattern: string, text: string) => Match,
): Match {
  if (typeof value !== "string") return otherKind(value);
  if (value.length > MAX_TEXT) return "maybe";
  const matchAny = (text: string) => any(patterns.map((pattern) => matches(pattern, text)));
  if (hasParentPart(value)) return "maybe";
  const match = matchAny(value);
  if (match !== "no") return match;
  const url = urlText(value);
  if (url === "unknown") return "maybe";
  const readings = [cleanPath(value), ...(url === undefined ? [] : [url, cleanPath(url)])];
  const isOther = (text: string) => text !== value && matchAny(text) !== "no";
  return readings.some(isOther) ? "maybe" : otherText(value);
}

/** Whether two values are the same JSON, regardless of how numbers are spelled. */
function equal(expected: PolicyValue, value: ExactJson): Match {
  if (value === null) return sure(expected === null);
  if (typeof value === "string" && (expected === null || typeof expected === "string")) {
    return value === expected ? "yes" : otherText(value);
  }
  if (expected === null) return "no";
  if (typeof expected === "number") {
    return isNumber(value) ? sure(compare(value, expected) === 0) : otherKind(value);
  }
  if (typeof expected !== "object") {
    return typeof value === typeof expected ? sure(value === expected) : otherKind(value);
  }
  if (isPolicyList(expected)) {
    if (!isExactList(value)) return otherKind(value);
    return value.length !== expected.length
      ? "no"
      : all(expected.map((item, index) => equalWhereGiven(item, value[index])));
  }
  if (!isExactObject(value)) return otherKind(value);
  const names = Object.keys(expected);
  const hasTheSame = names.length === Object.keys(value).length &&
    names.every((name) => Object.hasOwn(value, name));
  const match = all(
    names.values().map((name) => {
      const member = hasTheSame ? value[name] : memberOf(value, name);
      return member === UNKNOWN ? "maybe" : equalWhereGiven(expected[name], member);
    }),
  );
  // Servers ignore names that they do not know.
  return hasTheSame || match === "no" ? match : "maybe";
}

function equalWhereGiven(
  expected: PolicyValue | undefined,
  value: ExactJson | undefined,
): Match {
  return expected === undefined || value === undefined ? "no" : equal(expected, value);
}

/** Compares two numbers; `NaN` if the value is not a number. */
function compare(value: ExactJson, other: number): number {
  if (!isNumber(value)) return NaN;
  const source = stringifyExact(value);
  // Longer numbers are infinite as doubles, and slow as BigInts
  if (source.length < 400 && /^-?\d+$/.test(source) && Number.isInteger(other)) {
    const [one, two] = [BigInt(source), BigInt(other)];
    return one < two ? -1 : one > two ? 1 : 0;
  }
  return Number(source) - other;
}

function isNumber(value: ExactJson): value is number | RawNumber {
  return typeof value === "number" || isRawNumber(value);
}

function isPolicyList(value: PolicyValue): value is readonly PolicyValue[] {
  return Array.isArray(value);
}
