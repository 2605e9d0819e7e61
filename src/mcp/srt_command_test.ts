import { assertEquals, assertThrows } from "@std/assert";
import { ConfigError } from "../base/errors.ts";
import { parseSrtCommand } from "./launch.ts";

Deno.test("parseSrtCommand() finds the settings and the command, as srt does", () => {
  const parse = (...args: string[]) => parseSrtCommand("x", "srt", args);
  const npx = { settings: "a.json", command: "npx", args: ["-y", "--settings", "b"] };
  assertEquals(parse("--settings", "a.json", "npx", "-y", "--settings", "b"), npx);
  assertEquals(parse("--settings=a.json", "--debug", "--", "npx", "-y", "--settings", "b"), npx);
  assertEquals(parse("-d", "-s", "a.json", "npx", "-y", "--settings", "b"), npx);
  assertEquals(parse("ls"), { settings: undefined, command: "ls", args: [] });
  assertEquals(parseSrtCommand("x", "/usr/bin/srt", ["ls"])?.command, "ls");
  assertEquals(parseSrtCommand("x", "npx", ["srt"]), undefined);
});

Deno.test("parseSrtCommand() refuses what it does not know", () => {
  for (const args of [[], ["--"], ["-c", "ls"], ["--control-fd", "3", "ls"], ["--settings", "a"]]) {
    assertThrows(() => parseSrtCommand("x", "srt", args), ConfigError, '"x"');
  }
});
