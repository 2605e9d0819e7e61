import { assertEquals } from "@std/assert";
import { replaceVariables } from "./params.ts";

const shout = (body: string) => /^[a-z]+$/.test(body) ? body.toUpperCase() : undefined;

Deno.test("replaceVariables() replaces what it is given a text for", () => {
  assertEquals(replaceVariables("${a}-${b c}-${d}", shout), "A-${b c}-D");
  assertEquals(replaceVariables("${", shout), "${");
  assertEquals(replaceVariables("x${1 ${a}}", shout), "x${1 A}");
  assertEquals(replaceVariables("$a {b} ${}", shout), "$a {b} ${}");
});
