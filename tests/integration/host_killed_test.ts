import { assert, assertEquals } from "@std/assert";
import { ManagedProcess } from "../../src/process/managed_process.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { testPython } from "../support/python.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ownProgram } from "../../src/process/program.ts";

for (const sandbox of ["sandbox", "none"]) {
  Deno.test(`an application that is killed leaves no kernel and no MCP server (${sandbox})`, async () => {
    const application = new URL("../fixtures/executor_host.ts", import.meta.url).pathname;
    await using workspace = await TempFolder.create();
    await using cache = await TempCache.create();
    const mark = `mark-${crypto.randomUUID()}`;
    await using process = ManagedProcess.spawn({
      command: ownProgram(),
      args: ["run", "-A", application, workspace.path, sandbox, mark],
      env: { ...Deno.env.toObject(), ...cache.env, IPYBOX_PYTHON: testPython() },
    });
    const value = await process.pipes.read() ?? undefined;
    assertEquals(new TextDecoder().decode(value), "called", process.stderrTail);
    assert((await processesWith(mark)).length >= 3); // the host, the MCP server, the code's child

    Deno.kill(process.pid, "SIGKILL");

    assertEquals((await process.exited).signal, "SIGKILL");
    await untilNoneWith(mark);
    await untilNoneWith(cache.path);
  });
}
