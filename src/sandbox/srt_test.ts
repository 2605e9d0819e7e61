import { assert, assertEquals } from "@std/assert";
import manifest from "../../deno.json" with { type: "json" };
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { silentLogger } from "../base/log.ts";
import { findSrt, SRT_PACKAGE, SRT_VERSION, srtArguments } from "./srt.ts";

/** An installation as npm makes it: a link in a folder of the PATH. */
async function install(folder: TempFolder, version: string): Promise<string> {
  const root = `${folder.path}/lib/node_modules/${SRT_PACKAGE}`;
  await Deno.mkdir(`${root}/dist`, { recursive: true });
  await Deno.mkdir(`${folder.path}/bin`);
  await Deno.writeTextFile(`${root}/package.json`, JSON.stringify({ name: SRT_PACKAGE, version }));
  await Deno.writeTextFile(`${root}/dist/cli.js`, "", { mode: 0o755 });
  await Deno.symlink(`${root}/dist/cli.js`, `${folder.path}/bin/srt`);
  return `${folder.path}/bin`;
}

Deno.test("the pinned version is the one that the import map names", () => {
  assertEquals(manifest.imports[SRT_PACKAGE], `npm:${SRT_PACKAGE}@${SRT_VERSION}`);
});

Deno.test("srtArguments() keeps srt from reading the command's own options", () => {
  assertEquals(srtArguments("/s.json", ["python", "-c", "x"]), [
    "--settings",
    "/s.json",
    "--",
    "python",
    "-c",
    "x",
  ]);
});

Deno.test("findSrt() takes srt from the PATH", async () => {
  await using folder = await TempFolder.create();
  const bin = await install(folder, "0.0.80");
  const srt = await findSrt({ path: `/no/such:${bin}`, log: silentLogger });
  assertEquals([srt.command, srt.version], [`${bin}/srt`, "0.0.80"]);
});

Deno.test("findSrt() does without an srt that is too old, or is something else", async () => {
  await using old = await TempFolder.create();
  await using other = await TempFolder.create();
  await Deno.writeTextFile(`${other.path}/srt`, "#!/bin/sh\n", { mode: 0o755 });
  const path = [await install(old, "0.0.21"), other.path].join(":");
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (message: string) => warnings.push(message) };
  const srt = await findSrt({ path, log });
  assertEquals(srt.version, SRT_VERSION);
  assertEquals(srt.command, Deno.execPath());
  assert(warnings[0]?.includes("0.0.21"));
});
