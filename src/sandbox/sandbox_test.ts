import { assertEquals, assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { silentLogger } from "../base/log.ts";
import { effectiveLimits } from "./limits.ts";
import { prepareSandbox, workspaceView } from "./sandbox.ts";
import { hostPython } from "./wall.ts";

Deno.test("prepareSandbox() refuses a workspace around what only the host may see", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const folders = {
    session: `${workspace}/session`,
    temporary: `${workspace}/session/tmp`,
    hostPrivate: `${workspace}/host`,
    workspace,
  };
  const contents = { command: ["/bin/true"], readOnly: [], readable: [], writable: [] };
  const { signal } = new AbortController();
  const path = "/usr/bin:/bin";
  const options = {
    python: await hostPython(workspace),
    limits: effectiveLimits(undefined, { sandboxed: true }),
    ...{ log: silentLogger, signal, path },
  };

  await assertRejects(
    () => prepareSandbox(folders, contents, options),
    ConfigError,
    `ipybox keeps its own files in ${workspace}/host, which code must not see`,
  );
});

Deno.test("workspaceView() takes the .git of a worktree, which is a file, and keeps a repository's", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const keptOf = async () => {
    const view = await workspaceView(workspace, {
      log: silentLogger,
      python: await hostPython(workspace),
    });
    return view.keep.filter((path) => path.includes("/.git"));
  };
  await Deno.writeTextFile(`${workspace}/.git`, "gitdir: /elsewhere");
  assertEquals(await keptOf(), []);
  await Deno.remove(`${workspace}/.git`);
  await Deno.mkdir(`${workspace}/.git/hooks`, { recursive: true });
  assertEquals(await keptOf(), [`${workspace}/.git/hooks`]);
});
