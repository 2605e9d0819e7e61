import { assertRejects } from "@std/assert";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ConfigError } from "../base/errors.ts";
import { silentLogger } from "../base/log.ts";
import { prepareSandbox } from "./sandbox.ts";

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
