/**
 * The tools of ipybox's MCP server, with the names, parameters and defaults of the Python project
 * ipybox.
 *
 * @module
 */
import { z } from "zod";
import { checkServerName } from "../mcp/server_name.ts";
import { parseServerParams, type ServerParams } from "../mcp/server_params.ts";
import { EnvironmentNotReadyError } from "../errors.ts";
import type { ApprovalRounds } from "./approval_rounds.ts";
import { failure, outcomeContent } from "./cell_content.ts";
import { CellRun } from "./cell_run.ts";
import type { CallToolResult, SdkMcpServer } from "./sdk.ts";
import type { Session } from "./session.ts";

/** Adds ipybox's tools to a server. */
export function registerTools(
  server: SdkMcpServer,
  session: Session,
  rounds: ApprovalRounds,
): void {
  registerExecute(server, session, rounds);
  registerRegister(server, session, rounds);
  registerInstall(server, session);
  registerReset(server, session);
}

function registerExecute(server: SdkMcpServer, session: Session, rounds: ApprovalRounds): void {
  server.registerTool("execute_ipython_cell", {
    title: "Execute Python code",
    description: `
Executes Python code in a stateful IPython kernel and returns what it prints and its last value.

Variables, functions and imports persist between calls; cells run one after the other. Top-level
\`await\` and IPython magics work; \`input()\` does not. The kernel runs in a sandbox: it can write to the
workspace, and reaches the outside world only through the registered MCP servers:

  from mcptools.github import search_repositories
  for repo in search_repositories.run(query="ipybox").items: print(repo.full_name)
`.trim(),
    inputSchema: z.object({
      code: z.string().describe("Python code to execute in the IPython kernel"),
      timeout: z.number().positive().default(120)
        .describe("Maximum execution time in seconds before the kernel is interrupted"),
      max_output_chars: z.number().int().positive().default(5000)
        .describe("Maximum number of characters to return in output; the middle is cut"),
    }),
    annotations: { destructiveHint: true, openWorldHint: true },
  }, async ({ code, timeout, max_output_chars: limit }, ctx) => {
    try {
      const resumed = await rounds.resume(ctx);
      const run = resumed ?? new CellRun((await session.parts).executor, code, timeout * 1000);
      for (;;) {
        const step = await run.next(ctx.mcpReq.signal);
        if (step.type === "ended") return await outcomeContent(step.outcome, limit);
        if (rounds.canAsk(server, ctx)) return await rounds.ask(run, step.requests, ctx);
        const reason =
          "this MCP client cannot ask its user for approval (it has no elicitation); " +
          "the user can allow tool calls by starting `ipybox mcp` with `--approve allow`";
        for (const request of step.requests) await run.decide(request.id, "deny", reason);
      }
    } catch (error) {
      return explained(error);
    }
  });
}

function registerRegister(server: SdkMcpServer, session: Session, rounds: ApprovalRounds): void {
  server.registerTool("register_mcp_server", {
    title: "Register an MCP server",
    description: `
Connects to an MCP server and generates the Python API of its tools in mcptools/{server_name}/.

server_params is {"command", "args", "env"} for a server that is started here, or {"url", "headers"}
for a remote one. Write secrets as placeholders, such as "\${API_KEY}": they are filled in from the
user's environment. Registering a name again replaces its API; call reset to import the new one.
Afterwards, in a cell: \`from mcptools.{server_name} import {tool}; {tool}.run(argument=...)\`.
Registrations persist.
`.trim(),
    inputSchema: z.object({
      server_name: z.string()
        .describe("Name of the server and of its Python package: lower case, digits, underscores"),
      server_params: z.record(z.string(), z.unknown())
        .describe("How the server is started or reached"),
    }),
    annotations: { destructiveHint: false, openWorldHint: true },
  }, async ({ server_name: name, server_params }, ctx) => {
    try {
      checkServerName(name);
      const params = parseServerParams(name, server_params);
      const approved = await approveRegistration(name, params, async (description) => {
        if (rounds.canAsk(server, ctx)) return await rounds.askToRegister(description, ctx);
        throw new Error(
          `Registering a server needs the user's approval, and this MCP client cannot ask for it ` +
            `(it has no elicitation). Ask the user to run: ${registerCommand(name, params)}`,
        );
      });
      if (typeof approved === "object") return approved;
      if (!approved) throw new Error(`The user did not allow the registration of "${name}"`);
      const { executor } = await session.parts;
      const tools = await executor.registerServer(name, params);
      return {
        content: tools.map(({ tool, module, warnings }) => {
          const notes = warnings.length === 0 ? "" : ` (${warnings.join("; ")})`;
          const text = module === null ? `left out: ${tool}${notes}` : `${module}${notes}`;
          return { type: "text", text };
        }),
      };
    } catch (error) {
      return explained(error);
    }
  });

  async function approveRegistration<T>(
    name: string,
    params: ServerParams,
    ask: (description: string) => Promise<T>,
  ): Promise<T | boolean> {
    switch (rounds.mode) {
      case "allow":
        return true;
      case "deny":
        throw new Error("Registering servers is not allowed here (`ipybox mcp --approve deny`)");
      case "ask":
        // The whole of it, as JSON: what is shown is what will be started, to the last character.
        return await ask(
          `Register the MCP server "${name}"? It is started or reached like this, outside the ` +
            `code's sandbox:\n\n${visible(JSON.stringify(params, null, 2))}`,
        );
    }
  }
}

function registerInstall(server: SdkMcpServer, session: Session): void {
  server.registerTool("install_package", {
    title: "Install a Python package",
    description: `
Installs a Python package, which can be imported at once and stays installed after reset.

Takes a name with an optional version, such as "pandas" or "numpy>=2,<3". Only wheels from the package
index are installed.
`.trim(),
    inputSchema: z.object({
      package_name: z.string().describe('The package, such as "pandas" or "numpy>=2,<3"'),
    }),
    annotations: { destructiveHint: false, openWorldHint: true },
  }, async ({ package_name: requirement }, ctx) => {
    try {
      const { packages } = await session.parts;
      const { installed, output } = await packages.install(requirement, ctx.mcpReq.signal);
      return installed ? { content: [{ type: "text", text: output }] } : failure(output);
    } catch (error) {
      return explained(error);
    }
  });
}

function registerReset(server: SdkMcpServer, session: Session): void {
  server.registerTool("reset", {
    title: "Reset the kernel",
    description: `
Starts a fresh kernel. Cleared: variables, imports, connections to MCP servers. Kept: packages, files,
registered servers and their Python APIs in mcptools/.
`.trim(),
    inputSchema: z.object({}),
    annotations: { destructiveHint: true, idempotentHint: true },
  }, async () => {
    try {
      await (await session.parts).executor.reset();
      return { content: [{ type: "text", text: "The kernel was reset" }] };
    } catch (error) {
      return explained(error);
    }
  });
}

/** An error as a tool's result, with what helps against it. */
function explained(error: unknown): CallToolResult {
  if (error instanceof EnvironmentNotReadyError) {
    return failure(`${error.message}\nThe user can fix it with: ${error.fix}`);
  }
  return failure(error instanceof Error ? error.message : String(error));
}

/** The command with which a user registers the server himself. */
function registerCommand(name: string, params: ServerParams): string {
  const words = "url" in params
    ? ["ipybox", "register", name, "--url", params.url]
    : ["ipybox", "register", name, "--", params.command, ...(params.args ?? [])];
  return words.map((word) =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
  )
    .join(" ");
}

/** JSON text in which nothing is invisible or turns the direction of what is read. */
function visible(json: string): string {
  return json.replace(
    /[\p{Cf}\p{Cc}\p{Zl}\p{Zp}]/gu,
    (character) =>
      character === "\n" ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}
