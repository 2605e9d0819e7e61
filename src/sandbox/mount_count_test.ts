import { assertEquals, assertThrows } from "@std/assert";
import { ConfigError } from "../errors.ts";
import { refuseTooManyMounts } from "./mount_count.ts";
import { sandboxSettings } from "./policy.ts";

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
  const error = assertThrows(
    () => refuseTooManyMounts(settingsWith(["/space/.env", ...many]), "/space"),
    ConfigError,
    "Cannot use /space as workspace: 2502 files",
  );
  assertEquals(
    error.message.split("; ").at(-1),
    "2500 of them are in /space/data/made (d0/.env, d1/.env, d2/.env, …): remove what is not needed there",
  );
  assertThrows(
    () => refuseTooManyMounts(settingsWith(many.map((p) => p.replace("data/made/", ""))), "/space"),
    ConfigError,
    "2501 of them are in /space (d0/.env",
  );
});

Deno.test("refuseTooManyMounts() leaves a thousand protected files alone", () => {
  const many = Array.from({ length: 1000 }, (_, i) => `/space/d${i}/.env`);
  refuseTooManyMounts(settingsWith(many), "/space");
});
