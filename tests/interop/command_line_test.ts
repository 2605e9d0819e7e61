/**
 * The Inspector's command line and mcporter. They have no elicitation, show no progress and cannot
 * cancel. Each call is a process and a session of its own, so that there is nothing to reset; what is
 * registered on stdio is there for the next call, as it is in the workspace.
 *
 * The Inspector in the newer era is tried on stdio only: over HTTP it copies the body of each answer,
 * also of the one to `subscriptions/listen` that has no end, and under Deno that keeps it from reading
 * on. It needs Node 22.19 there.
 */
import { ServerRegistry } from "../../src/servers/registry.ts";
import { assertEquals, assertStringIncludes } from "@std/assert";
import { cliArguments } from "../support/cli.ts";
import {
  type CommandLineClient,
  inspector,
  mcporter,
  type ServerToCall,
} from "../support/command_line_clients.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import {
  CELL,
  CELLS,
  checkCalls,
  checkTranscript,
  type End,
  REGISTRATION,
  type Transcript,
} from "../support/interop.ts";
import { stepsOf } from "../support/steps.ts";
import { testPython } from "../support/python.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** The programs, and which of them calls cells on stdio. */
const CLIENTS = [
  { client: inspector("legacy"), caller: inspector("modern") },
  { client: mcporter, caller: mcporter },
];

for (const { client, caller } of CLIENTS) {
  Deno.test(`${client.name} with ipybox mcp`, async (t) => {
    const step = stepsOf(t);
    await using workspace = await TempFolder.create();
    await using cache = await TempCache.create();
    // These programs start servers with few variables, and in a home of their own.
    const env = { ...cache.env, HOME: Deno.env.get("HOME"), IPYBOX_PYTHON: testPython() };
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const served = ["--workspace", workspace.path, "--no-sandbox"];
    const command = ["env", ...variables, Deno.execPath(), ...cliArguments, "mcp", ...served];
    const allowed = { command: [...command, "--approve", "allow"] };
    let registered: End | undefined;

    await step("is told what to do where a registration needs approval", async () => {
      const { isError, text } = await client.call({ command }, "register_mcp_server", REGISTRATION);
      assertEquals(isError, true);
      assertStringIncludes(text, "the user's approval is needed");
      assertStringIncludes(text, "ipybox register sums --");
    });

    await step(`on stdio, --approve allow, with cells by ${caller.name}`, async () => {
      registered = await client.call(allowed, "register_mcp_server", REGISTRATION);
      checkCalls(await callsOf(caller, allowed, registered));
    });

    await step("over HTTP", async () => {
      const args = [...served, "--approve", "allow", "--allow-registrations"];
      // Clients have a home of their own, and what is registered from there is another person's.
      const registry = await ServerRegistry.open({ workspace: workspace.path });
      for (const [name, params] of registry.entries) await registry.register(name, params);
      await using server = await HttpMcp.start(args);
      if (registered === undefined) throw new Error("the step before has failed");
      const tools = await client.list(server.address);
      checkTranscript({ tools, ...await callsOf(client, server.address, registered) });
    });
  });
}

async function callsOf(
  client: CommandLineClient,
  server: ServerToCall,
  registered: End,
): Promise<Omit<Transcript, "tools">> {
  // One cell does all three, as each call has a session to start.
  const code = [CELLS.composed, CELLS.image, CELLS.error].join("\n");
  const end = await client.call(server, CELL, { code });
  return { registered, composed: end, image: end, error: end };
}
