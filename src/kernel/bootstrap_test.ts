import { assertEquals } from "@std/assert";
import { bootstrapCode } from "./bootstrap.ts";

Deno.test("bootstrapCode() is one expression with its configuration as JSON in a string", () => {
  const hostile = `"); import os #\\\n'''\u2028é🎉`;
  const code = bootstrapCode({ workingDir: hostile, restoreWorkingDir: true, shell: "none" });
  const literal = /^__import__\("ipybox_runtime\.kernel", fromlist=\["start"\]\)\.start\((".*")\)$/
    .exec(code)?.[1];
  assertEquals(JSON.parse(JSON.parse(literal ?? "")), {
    workingDir: hostile,
    restoreWorkingDir: true,
    shell: "none",
  });
});
