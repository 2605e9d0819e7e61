/**
 * Attacks by somebody who owns a workspace, or a folder above it, on the user who works in it: folders
 * are exchanged with links while ipybox writes.
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import { removePackage } from "../../src/apigen/package.ts";
import { ConfigError } from "../../src/base/errors.ts";
import { lockPlainFolder, replaceHostileFile } from "../../src/files/safe.ts";
import { realWorkspace } from "../../src/sandbox/workspace.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { attack } from "../support/attacker.ts";
import { TestExecutor } from "../support/executor.ts";
import { TempFolder } from "../support/temp_folder.ts";

const PARAMS = { command: "true" };

/** Writes all that commands write. */
async function writeAll(workspace: string): Promise<PromiseSettledResult<unknown>[]> {
  const state = `${workspace}/.ipybox`;
  const listing = { tools: [{ name: "pay", inputSchema: { type: "object" } }] };
  const rootDir = `${workspace}/mcptools`;
  return await Promise.allSettled([
    generatePackage("t", listing, { rootDir }).then(() => removePackage(rootDir, "t")),
    ServerRegistry.open({ workspace }).then((registry) => registry.register("t", PARAMS)),
    replaceHostileFile(`${state}/file`, "text"),
    lockPlainFolder(state, "lock").then((lock) => lock[Symbol.dispose]()),
  ]);
}

/** Exchanges folders of a workspace with links to another folder until disposed. */
async function exchanging(workspace: string, names: readonly string[], target: string) {
  const exchange = `
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
workspace, target, *names = sys.argv[1:]
os.chdir(workspace)
for name in names:
    os.symlink(target, name + ".link")
print("ready", flush=True)
while True:
    for name in names:
        libc.syscall(316, -100, name.encode(), -100, (name + ".link").encode(), 2)
    time.sleep(0.001)
`;
  return await attack(["-c", exchange, workspace, target, ...names]);
}

Deno.test("nobody who exchanges a workspace's folders with links has ipybox copy others to kernels elsewhere", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  await Deno.mkdir(`${outside.path}/t`);
  await Deno.writeTextFile(`${outside.path}/t/key.py`, "of the user");
  const { path: workspace } = folder;
  const placement = { type: "command", command: ["/usr/bin/env"], bubblewrap: true } as const;
  await using started = await TestExecutor.start({ workspace, placement });
  await Deno.mkdir(`${workspace}/mcptools/t`, { recursive: true });
  await using _attacker = await exchanging(workspace, ["mcptools", "mcptools/t"], outside.path);
  const look = `
import os, sys
for folder in filter(lambda path: path.endswith("/modules"), sys.path):
    for _, _, names in os.walk(folder):
        print(names)`;
  let ran = 0;
  for (let round = 0; round < 60; round++) {
    const end = await started.executor.execute(look).catch((error: unknown) => `${error}`);
    if (typeof end === "string") assertStringIncludes(end, "is not a plain folder");
    else if (end.text !== undefined) ran++;
    assert(typeof end === "string" || !end.text?.includes("key.py"), "copied");
  }
  assert(ran > 0, "nothing was run at all");
});

Deno.test("nobody who exchanges a workspace's folders with links has ipybox write elsewhere", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  await Deno.mkdir(`${outside.path}/t`); // a package of that name is somebody else's
  await Deno.writeTextFile(`${outside.path}/t/__init__.py`, "");
  const workspace = await realWorkspace(folder.path);
  await writeAll(workspace);
  await using _attacker = await exchanging(workspace, ["mcptools", ".ipybox"], outside.path);
  let written = 0;
  for (let round = 0; round < 60; round++) {
    const ends = await writeAll(workspace);
    written += ends.filter(({ status }) => status === "fulfilled").length;
  }
  assert(written > 0, "nothing was written at all");
  const found = await Array.fromAsync(Deno.readDir(outside.path), ({ name }) => name);
  assertEquals(found, ["t"]);
  assertEquals(await Deno.readTextFile(`${outside.path}/t/__init__.py`), "");
});

Deno.test("a workspace that has become a link to another folder is not written to", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  await Deno.mkdir(`${folder.path}/above/proj`, { recursive: true });
  await Deno.mkdir(`${outside.path}/proj`);
  const workspace = await realWorkspace(`${folder.path}/above/proj`);
  await Deno.rename(`${folder.path}/above`, `${folder.path}/moved`);
  await Deno.symlink(outside.path, `${folder.path}/above`);

  for (const end of await writeAll(workspace)) {
    await assertRejects(
      () => end.status === "rejected" ? Promise.reject(end.reason) : Promise.resolve(),
      ConfigError,
      "is not a plain folder",
    );
  }
  assertEquals(await Array.fromAsync(Deno.readDir(`${outside.path}/proj`)), []);
});
