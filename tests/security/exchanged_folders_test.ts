/**
 * Attacks by somebody who owns a workspace, or a folder above it, on the user who works in it: folders
 * are exchanged with links while ipybox writes.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { generatePackage } from "../../src/apigen/generate.ts";
import { removePackage } from "../../src/apigen/package.ts";
import { AuditFolder } from "../../src/approval/audit/folder.ts";
import { ConfigError } from "../../src/base/errors.ts";
import { lockPlainFolder, replaceHostileFile } from "../../src/files/safe.ts";
import { realWorkspace } from "../../src/sandbox/workspace.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { testPython } from "../support/python.ts";
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
    new AuditFolder(workspace).open().then((file) => file.close()),
  ]);
}

Deno.test("nobody who exchanges a workspace's folders with links has ipybox write elsewhere", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  await Deno.mkdir(`${outside.path}/t`); // a package of that name is somebody else's
  await Deno.writeTextFile(`${outside.path}/t/__init__.py`, "");
  const workspace = await realWorkspace(folder.path);
  await writeAll(workspace);
  const exchange = `
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
os.chdir(sys.argv[1])
for name in ["mcptools", ".ipybox"]:
    os.symlink(sys.argv[2], name + ".link")
print("ready", flush=True)
while True:
    for name in ["mcptools", ".ipybox"]:
        libc.syscall(316, -100, name.encode(), -100, (name + ".link").encode(), 2)
    time.sleep(0.001)
`;
  await using attacker = new Deno.Command(testPython(), {
    args: ["-c", exchange, workspace, outside.path],
    stdout: "piped",
  }).spawn();
  const reader = attacker.stdout.getReader();
  assert(!(await reader.read()).done);
  await reader.cancel();
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
