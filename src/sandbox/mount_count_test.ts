import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { ConfigError } from "../base/errors.ts";
import { refuseTooManyMounts, sandboxSettings } from "./settings.ts";

function settingsWith(secrets: readonly string[]) {
  return sandboxSettings({
    writable: ["/session", "/space"],
    readOnly: [],
    hostPrivate: "/host",
    base: "/space",
    protectedPaths: { unreadable: secrets, readOnly: ["/space/mcptools"] },
    readable: ["/python"],
  });
}

Deno.test("refuseTooManyMounts() names the folder that most of the files are in", () => {
  const many = Array.from({ length: 2500 }, (_, i) => `/space/data/made/d${i}/.env`);
  const refused = (files: readonly string[]) =>
    assertThrows(() => refuseTooManyMounts(settingsWith(files), "/space"), ConfigError).message;
  assertEquals(
    refused(["/space/.env", ...many]),
    "Cannot use /space as workspace: 2500 files and folders in /space/data/made " +
      "(d0/.env, d1/.env, d2/.env, …) must be hidden from code, more than a sandbox supports: remove what you do not " +
      "need there",
  );
  const spread = many.map((path) => path.replace("data/made/", ""));
  assertStringIncludes(refused(spread), "2501 files and folders in /space (d0/.env, ");
});

Deno.test("refuseTooManyMounts() leaves a thousand protected files alone", () => {
  const many = Array.from({ length: 1000 }, (_, i) => `/space/d${i}/.env`);
  refuseTooManyMounts(settingsWith(many), "/space");
});
