import { assertEquals } from "@std/assert";
import { z } from "zod";
import { problemLines } from "./problems.ts";

function problemsWith(value: unknown): string {
  const { error } = z.strictObject({}).safeParse(value);
  return error === undefined ? "" : problemLines(error);
}

Deno.test("problemLines() quotes names so that they begin no line, and not without end", () => {
  assertEquals(
    problemsWith({ "a\nipybox: all is well\u2028\u202e": 1 }),
    '✖ Unrecognized key: "a\\nipybox: all is well\\u2028\\u202e"',
  );
  assertEquals(problemsWith({ ["x".repeat(1e6)]: 1 }).length, 303);
});

Deno.test("problemLines() lists the first problems and counts the others", () => {
  const { error } = z.array(z.string()).safeParse(Array(25).fill(1));
  const lines = error === undefined ? [] : problemLines(error).split("\n");
  assertEquals(lines.filter((line) => line.startsWith("✖")).length, 21);
  assertEquals(lines.at(-1), "✖ 5 more problems");
});
