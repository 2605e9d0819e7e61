import { assertEquals, assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { silentLogger } from "../base/log.ts";
import { prepareSandbox, sandboxFix } from "./sandbox.ts";
import { refuseUnfit } from "./workspace.ts";

Deno.test("prepareSandbox() refuses a workspace around what only the host may see", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const folders = {
    session: `${workspace}/session`,
    hostPrivate: `${workspace}/host`,
    workspace,
  };
  const contents = { command: ["/bin/true"], readOnly: [], readable: [] };
  const { signal } = new AbortController();
  await using belongings = new AsyncDisposableStack();
  const options = { log: silentLogger, signal, path: "/usr/bin:/bin", belongings };

  await assertRejects(
    () => prepareSandbox(folders, contents, options),
    ConfigError,
    `ipybox keeps its own files in ${workspace}/host, which code must not see`,
  );
});

Deno.test("sandboxFix() installs bubblewrap only if that is missing", () => {
  const missing = "Sandbox dependencies not available: bubblewrap (bwrap) not installed";
  assertEquals(sandboxFix(missing), "sudo apt-get install -y bubblewrap socat ripgrep");
  assertEquals(sandboxFix("bwrap: Can't find source path /a: No such file"), "ipybox doctor");
});

Deno.test({
  name: "refuseUnfit() refuses a workspace in /dev, of which the sandbox has its own",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    await assertRejects(() => refuseUnfit("/dev/shm/space"), ConfigError, "/dev of its own");
  },
});
