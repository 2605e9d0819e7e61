import {
  type ExactJson,
  type ExactObject,
  isExactObject,
  isRawNumber,
  type RawNumber,
  stringifyExact,
} from "../json/exact.ts";
import { all, any, climbs, many, type Match, matchesGlob, not, sure } from "./match.ts";
import type { PathJudge } from "./paths.ts";
import type { ArgumentCondition, ArgumentTest, PolicyValue } from "./schema.ts";

/**
 * Matches a call's arguments.
 *
 * @param conditions The conditions by JSON pointer.
 * @param args The arguments.
 * @param paths Says where paths are.
 * @returns Whether all conditions hold.
 */
export function matchArguments(
  conditions: Readonly<Record<string, ArgumentCondition>>,
  args: ExactObject,
  paths: PathJudge,
): Match {
  return all(
    Object.entries(conditions).map(([pointer, condition]) => {
      return matchValue(condition, resolvePointer(args, pointer), paths);
    }),
  );
}

/** Finds a value by a JSON pointer. */
function resolvePointer(root: ExactJson, pointer: string): ExactJson | undefined {
  let value: ExactJson | undefined = root;
  for (const token of pointer.split("/").slice(1)) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (isList(value)) value = /^(0|[1-9]\d*)$/.test(key) ? value[Number(key)] : undefined;
    else if (isExactObject(value) && Object.hasOwn(value, key)) value = value[key];
    else return undefined;
  }
  return value;
}

function matchValue(
  condition: ArgumentCondition,
  value: ExactJson | undefined,
  paths: PathJudge,
): Match {
  if (typeof condition !== "object" || condition === null) {
    return sure(value !== undefined && equal(condition, value));
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
  if (equals !== undefined) yield sure(equal(equals, value));
  if (oneOf !== undefined) yield sure(oneOf.some((one) => equal(one, value)));
  if (glob !== undefined) yield matchText(value, many(glob), matchesGlob);
  if (prefix !== undefined) {
    yield matchText(value, many(prefix), (start, text) => text.startsWith(start));
  }
  if (path !== undefined) {
    yield typeof value === "string"
      ? any(many(path).map((folder) => paths.isInside(value, folder)))
      : otherKind(value);
  }
  if (min !== undefined) yield isNumber(value) ? sure(compare(value, min) >= 0) : otherKind(value);
  if (max !== undefined) yield isNumber(value) ? sure(compare(value, max) <= 0) : otherKind(value);
  if (each !== undefined) {
    yield isList(value)
      ? all(value.map((item) => matchValue(each, item, paths)))
      : otherKind(value);
  }
  if (some !== undefined) {
    yield isList(value)
      ? any(value.map((item) => matchValue(some, item, paths)))
      : otherKind(value);
  }
  if (test.not !== undefined) yield not(matchValue(test.not, value, paths));
}

/** What a server makes of `"5"` for a number, or of a list for a text, only it can tell. */
function otherKind(value: ExactJson): Match {
  return value === null ? "no" : "maybe";
}

/** What a text starts with or looks like says little of where it leads once there is a `..` in it. */
function matchText(
  value: ExactJson,
  patterns: readonly string[],
  matches: (pattern: string, text: string) => boolean,
): Match {
  if (typeof value !== "string") return otherKind(value);
  if (!patterns.some((pattern) => matches(pattern, value))) return "no";
  return climbs(value) ? "maybe" : "yes";
}

/** Whether two values are the same JSON, however their numbers are spelled. */
function equal(expected: PolicyValue, value: ExactJson): boolean {
  if (typeof expected === "number") return compare(value, expected) === 0;
  if (typeof expected !== "object" || expected === null) return expected === value;
  if (isPolicyList(expected)) {
    return isList(value) && value.length === expected.length &&
      expected.every((item, index) => {
        const other = value[index];
        return other !== undefined && equal(item, other);
      });
  }
  if (!isExactObject(value)) return false;
  const names = Object.keys(expected);
  return names.length === Object.keys(value).length && names.every((name) => {
    const [one, other] = [expected[name], Object.hasOwn(value, name) ? value[name] : undefined];
    return one !== undefined && other !== undefined && equal(one, other);
  });
}

/** How a number compares with another; `NaN` where it is no number. */
function compare(value: ExactJson, other: number): number {
  if (!isNumber(value)) return NaN;
  const source = stringifyExact(value);
  if (/^-?\d+$/.test(source) && Number.isInteger(other)) {
    const [one, two] = [BigInt(source), BigInt(other)];
    return one < two ? -1 : one > two ? 1 : 0;
  }
  return Number(source) - other;
}

function isNumber(value: ExactJson): value is number | RawNumber {
  return typeof value === "number" || isRawNumber(value);
}

function isList(value: ExactJson | undefined): value is readonly ExactJson[] {
  return Array.isArray(value);
}

function isPolicyList(value: PolicyValue): value is readonly PolicyValue[] {
  return Array.isArray(value);
}
