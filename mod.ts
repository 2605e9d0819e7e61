/**
 * Runs the Python that AI agents write: in a stateful IPython kernel, inside an OS sandbox, with MCP
 * tools as typed Python functions, and with your approval before any tool call happens.
 *
 * ```ts
 * import { CodeExecutor, generateMcpSources } from "@ipybox/ipybox";
 *
 * const server = { command: "npx", args: ["-y", "@modelcontextprotocol/server-everything"] };
 * await generateMcpSources("everything", server, { rootDir: "mcptools" });
 *
 * await using executor = await CodeExecutor.start({ servers: { everything: server } });
 * const code = "from mcptools.everything import get_sum\nprint(get_sum.run(a=20, b=22))";
 * for await (const event of executor.stream(code, { timeoutMs: 60_000 })) {
 *   if (event.type === "approval") await event.request.accept();
 *   if (event.type === "result") console.log(event.result.text);
 * }
 * ```
 *
 * Python and the sandbox are set up once, by `deno run -A jsr:@ipybox/ipybox/cli setup`. The README
 * says which Deno permissions a script needs, and why.
 *
 * @module
 */
export { CodeExecutor } from "./src/executor/code_executor.ts";
export type {
  CodeExecutorOptions,
  ExecuteOptions,
  StreamOptions,
} from "./src/executor/code_executor.ts";
export type {
  ApprovalEvent,
  ChunkEvent,
  ExecutionEvent,
  ResultEvent,
} from "./src/executor/events.ts";
