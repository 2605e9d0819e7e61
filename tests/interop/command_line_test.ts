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
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
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
  checkTranscript,
  type End,
  REGISTRATION,
  type Transcript,
} from "../support/interop.ts";
import { stepsOf } from "../support/steps.ts";
import { testPython } from "../support/python.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";

const CLIENTS = [
  { client: inspector("legacy"), newer: inspector("modern") },
  { client: mcporter, newer: undefined },
];

for (const { client, newer } of CLIENTS) {
  Deno.test(`${client.name} with ipybox mcp`, async (t) => {
    const step = stepsOf(t);
    await using workspace = await TempFolder.create();
    await using cache = await TempCache.create();
    // These programs start servers with few variables, and in a home of their own.
    const env = { ...cache.env, HOME: Deno.env.get("HOME"), IPYBOX_PYTHON: testPython() };
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const ipybox = [Deno.execPath(), ...cliArguments, "mcp", "--workspace", workspace.path];
    const command = ["env", ...variables, ...ipybox];
    const allowed = { command: [...command, "--approve", "allow"] };
    let registered: End | undefined;

    await step("is told what to do where a registration needs approval", async () => {
      const { isError, text } = await client.call({ command }, "register_mcp_server", REGISTRATION);
      assertEquals(isError, true);
      assertStringIncludes(text, "the user's approval is needed");
      assertStringIncludes(text, "ipybox register sums --");
    });

    await step("on stdio, --approve allow", async () => {
      registered = await client.call(allowed, "register_mcp_server", REGISTRATION);
      checkTranscript(await transcriptOf(client, allowed, registered));
    });

    if (newer !== undefined) {
      await step("on stdio, in the newer era", async () => {
        const { text } = await newer.call(allowed, CELL, { code: CELLS.composed });
        assertMatch(text, /The sum of 2 and 40 is 42/i);
      });
    }

    await step("over HTTP", async () => {
      const args = ["--workspace", workspace.path, "--approve", "allow", "--allow-registrations"];
      // Clients have a home of their own, and what is registered from there is another person's.
      const registry = await ServerRegistry.open({ workspace: workspace.path });
      for (const [name, params] of registry.entries) await registry.register(name, params);
      await using server = await HttpMcp.start(args);
      if (registered === undefined) throw new Error("the step before has failed");
      checkTranscript(await transcriptOf(client, server.address, registered));
    });
  });
}

async function transcriptOf(
  client: CommandLineClient,
  server: ServerToCall,
  registered: End,
): Promise<Transcript> {
  // One cell does all three, as each call has a session to start.
  const code = [CELLS.composed, CELLS.image, CELLS.error].join("\n");
  const end = await client.call(server, CELL, { code });
  const tools = await client.list(server);
  return { tools, registered, composed: end, image: end, error: end };
}
