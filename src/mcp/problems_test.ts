import { assertEquals } from "@std/assert";
import { z } from "zod";
import { messageOf, problemOf } from "./results.ts";

const shape = z.object({ tools: z.array(z.object({ name: z.string(), size: z.number() })) });
const { error } = shape.safeParse({ tools: [{ name: 1, size: "x" }] });

Deno.test("problemOf() names the first problem, its place, and how many there are", () => {
  const first = "tools/0/name: Invalid input: expected string, received number";
  assertEquals(problemOf(error ?? new z.ZodError([])), `${first} (and 1 more)`);
});

Deno.test("messageOf() gives a dump of problems as the first of them, and any message in one line", () => {
  const dump = new Error(`Invalid result for x: ${error?.message}`);
  assertEquals(
    messageOf(dump),
    "Invalid result for x: tools/0/name: Invalid input: expected string, received number (and 1 more)",
  );
  assertEquals(messageOf(new Error("one\n  two [ {x} ]")), "one two [ {x} ]");
  assertEquals(messageOf("x".repeat(1000)).length, 301);
});
