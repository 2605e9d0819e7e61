import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { INITIALIZE } from "../support/initialize.ts";
import { startIpybox } from "../support/cli.ts";
import { until } from "../support/wait.ts";
import { McpHost } from "../support/mcp_client.ts";
import { processesWith, untilNoneWith } from "../support/processes.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

for (const how of ["the end of stdin", "SIGTERM", "SIGINT"] as const) {
  Deno.test(`ipybox mcp ends at ${how}, in the middle of a cell, and leaves no process`, async () => {
    await using workspace = await TempFolder.create();
    await using cache = await TempCache.create();
    const mark = `mark-${crypto.randomUUID()}`;
    const code = `import subprocess, time
subprocess.Popen(["setsid", "sh", "-c", "sleep 1000; : ${mark}"]); time.sleep(1000)`;
    await using server = startIpybox(["mcp", "--workspace", workspace.path], {
      env: cache.env,
      stdin: "piped",
    });
    const ended = server.output();
    const writer = server.stdin.getWriter();
    await writer.write(lines(INITIALIZE, INITIALIZED, {
      jsonrpc: "2.0",
      id: 2,
      method: "tools/call",
      params: { name: "execute_ipython_cell", arguments: { code } },
    }));
    await until("the cell has begun", async () => (await processesWith(mark)).length > 0);

    if (how === "the end of stdin") await writer.close();
    else server.kill(how);

    const { code: exitCode, stdout, stderr } = await ended;
    await writer.close().catch(() => {}); // it was closed, or nobody reads it
    assertEquals(exitCode, 0, new TextDecoder().decode(stderr));
    for (const line of new TextDecoder().decode(stdout).trimEnd().split("\n")) {
      assertEquals(JSON.parse(line).jsonrpc, "2.0"); // nothing but the protocol
    }
    await untilNoneWith(mark);
    await untilNoneWith(workspace.path);
  });
}

Deno.test("ipybox mcp answers before its kernel is up, and says why there is none", async () => {
  await using workspace = await TempFolder.create();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--python", "/bin/false"],
  });

  const tools = await host.tools();
  const { isError, text } = await host.call("execute_ipython_cell", { code: "1" });

  assert(tools.length >= 4);
  assertEquals(isError, true);
  assertStringIncludes(text, 'Cannot use "/bin/false" as Python');
  assertStringIncludes(text, "The user can fix it with: ");
});

Deno.test("ipybox mcp sends a client of the first versions nothing that it does not know", async () => {
  await using workspace = await TempFolder.create();
  await using cache = await TempCache.create();
  await using server = startIpybox(["mcp", "--workspace", workspace.path, "--no-sandbox"], {
    env: cache.env,
    stdin: "piped",
    stderr: "null",
  });
  const writer = server.stdin.getWriter();
  const { params } = INITIALIZE;
  const code = "print('x' * 6000)";
  await writer.write(lines(
    { ...INITIALIZE, params: { ...params, protocolVersion: "2024-11-05" } },
    INITIALIZED,
    {
      jsonrpc: "2.0",
      id: 2,
      method: "tools/call",
      params: { name: "execute_ipython_cell", arguments: { code } },
    },
  ));
  const types: string[] = [];
  let rest = "";
  for await (const text of server.stdout.pipeThrough(new TextDecoderStream())) {
    const whole = (rest + text).split("\n");
    rest = whole.pop() ?? "";
    for (const { id, result } of whole.map((line) => JSON.parse(line))) {
      if (id !== 2) continue;
      for (const { type } of result.content) types.push(type);
      await writer.close(); // which ends the server, and with it its output
    }
  }
  assertEquals(types, ["text"]);
});

const INITIALIZED = { jsonrpc: "2.0", method: "notifications/initialized" };

function lines(...messages: unknown[]): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(messages.map((line) => JSON.stringify(line) + "\n").join(""));
}
