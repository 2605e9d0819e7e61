import { z } from "zod";
import type { GeneratedTool } from "../../apigen/generate.ts";
import { shellWord } from "../../base/shell_word.ts";
import type { OwnRegisterOptions } from "../../executor/options.ts";
import {
  checkServerName,
  type HttpServerParams,
  parseServerParams,
  type ServerParams,
  type StdioServerParams,
  WORKSPACE_VARIABLE,
} from "../../mcp/params.ts";
import { launchText } from "../../servers/fingerprint.ts";
import { boundSettings } from "../../servers/registry.ts";
import { reachText, startEvidence } from "../../servers/start_evidence.ts";
import { foreignBlock } from "../../approval/call_text.ts";
import { success } from "../failure.ts";
import { addTool, type ToolHost } from "../tool.ts";
import { isRecord } from "../../json/exact.ts";

const DESCRIPTION = `
Connects to an MCP server and generates a Python module for each of its tools; \
find them with search_tools. The user approves it. Write secrets as "\${API_KEY}": they are filled in from the user's environment. Registering again \
replaces it; reset to import the new one.
`.trim();

export function registerRegister(host: ToolHost): void {
  addTool(host, "register_mcp_server", {
    title: "Register an MCP server",
    description: DESCRIPTION,
    input: () =>
      z.object({
        server_name: z.string()
          .describe("Its Python package: lower case, digits, underscores"),
        server_params: serverParamsInput.describe("How to start or reach the server"),
      }),
    hints: ["idempotent", "openWorld"],
  }, async ({ server_name: name, server_params }, request) => {
    checkServerName(name);
    const params = parseServerParams(name, server_params);
    const launch = launchText(params);
    const workspace = await request.session.workspace;
    const variables = (name: string) => name === WORKSPACE_VARIABLE ? workspace : `\${${name}}`;
    const log = request.session.log;
    const evidence = await startEvidence(name, params, { workspace, variables, isOwn: true, log });
    const reach = reachText(name, evidence, workspace);
    const settings = boundSettings(evidence);
    const shownSettings = settings === undefined ? {} : { sandbox_settings: settings };
    const change = {
      tool: "register_mcp_server",
      parameters: { server_name: name, server_params: params, ...shownSettings },
      noted: { server_name: name, server: launch }, // without the values of variables and headers
      question: {
        // All of it, as JSON: the user sees exactly the server that will be started.
        description: `Register the MCP server "${name}"? It is started or reached like this, ` +
          `outside the code's sandbox:\n\n${
            foreignBlock(JSON.stringify(params, null, 2).split("\n"))
          }${settings === undefined ? "" : settingsBlock(settings)}${
            reach === undefined ? "" : `\n\n${reach}`
          }`,
        summary: `Registering the server "${name}"`,
        byHand: byHand(name, params),
        effect:
          `Registers this server, which runs or is reached outside the code's sandbox: ${launch}`,
      },
    };
    const { makeChange } = await import("./make_change.ts");
    return await makeChange(change, request, async () => {
      const { session, work } = request;
      work.activity = `Connecting to ${name}`;
      const { executor } = await work.kernel();
      const seen: OwnRegisterOptions = { seen: { settings } };
      const tools = await executor.registerServer(name, params, seen);
      await session.serversChanged();
      return success(registeredText(name, tools));
    });
  });
}

function settingsBlock(settings: string): string {
  return `\n\nThe settings of its sandbox:\n\n${foreignBlock(settings.split("\n"))}`;
}

/** The modules in one line, then notes on single tools. */
function registeredText(server: string, tools: readonly GeneratedTool[]): string {
  const modules = tools.flatMap(({ module }) => module === null ? [] : [module]);
  const notes = tools.flatMap(({ tool, module, warnings }) =>
    module === null
      ? [`Left out: ${[tool, ...warnings].join(": ")}`]
      : warnings.map((warning) => `${module}: ${warning}`)
  );
  return [`Registered ${server}: ${modules.join(", ") || "no tools"}`, ...notes].join("\n");
}

/**
 * The server as in an `mcpServers` file, including other fields that such files may have. Variables and
 * headers are declared as lists, because not all model providers allow objects with arbitrary keys.
 * Objects are accepted, too.
 */
const serverParamsInput: z.ZodType<Record<string, unknown>> = z.looseObject({
  command: z.string().optional().describe('Program of a local server, such as "npx"'),
  args: z.array(z.string()).optional().describe("Arguments"),
  env: pairs("=").optional().describe('Such as "API_KEY=${API_KEY}"'),
  url: z.string().optional().describe("Remote server, not command"),
  headers: pairs(": ").optional()
    .describe('Such as "Authorization: Bearer ${TOKEN}"'),
});

/** A list of names with values, or an object; both become an object. */
function pairs(separator: string): z.ZodType<Record<string, string>> {
  const mark = separator.trim();
  const form = `expected "NAME${separator}value"`;
  return z.preprocess(
    (given) => isRecord(given) ? Object.entries(given).map(([n, v]) => n + separator + v) : given,
    z.array(z.string().refine((line) => line.indexOf(mark) > 0, form)),
  ).transform((lines) =>
    Object.fromEntries(lines.map((line) => {
      const at = line.indexOf(mark);
      const value = line.slice(at + mark.length);
      return [line.slice(0, at).trim(), mark === separator ? value : value.trim()];
    }))
  );
}

/** How the user can register exactly this server: with a command if that is simple, or else with a file. */
function byHand(name: string, params: ServerParams): string {
  const { url, command = "", args = [], env = {}, headers = {}, ...others }: Partial<
    StdioServerParams & HttpServerParams
  > = params;
  const pairs = [...Object.entries(env), ...Object.entries(headers)];
  const isSimple = Object.keys(others).length === 0 &&
    pairs.every(([name, value]) => /^[\w.-]+$/.test(name) && value === value.trimStart());
  if (!isSimple) {
    const file = JSON.stringify({ mcpServers: { [name]: params } });
    return `Ask the user to run \`ipybox register --from FILE\`, with this in FILE: ${file}`;
  }
  const words = [
    ...(url === undefined ? [] : ["--url", url]),
    ...Object.entries(env).flatMap((pair) => ["--env", pair.join("=")]),
    ...Object.entries(headers).flatMap((pair) => ["--header", pair.join(": ")]),
    ...(url === undefined ? ["--", command, ...args] : []),
  ];
  return `Ask the user to run: ${["ipybox", "register", name, ...words].map(shellWord).join(" ")}`;
}
