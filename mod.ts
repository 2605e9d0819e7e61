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
 * Python and the sandbox are set up once, by `ipybox setup`.
 *
 * Permissions that a script needs:
 * - `net=127.0.0.1`: the kernel gateway and the door for approvals; and the hosts of remote servers
 * - `read`, `write` of the workspace: generated APIs, the registry, images
 * - `read`, `write` of `/tmp` or `TMPDIR`: the session's private folder
 * - `read` of `~/.cache/ipybox` and of `npm` in Deno's cache: Python and the sandbox runtime
 * - `env=HOME,IPYBOX_PYTHON,PATH,XDG_CACHE_HOME`: where Python and programs are found
 * - `run` of that Python, of `deno` (the sandbox runtime), and of the commands of MCP servers
 *
 * @module
 */
export { CodeExecutor } from "./src/executor/code_executor.ts";
export { ExecutorPool } from "./src/executor/pool.ts";
export type { ExecutorPoolOptions } from "./src/executor/pool.ts";
export { CheckReport } from "./src/check/report.ts";
export type { NamedTool } from "./src/check/report.ts";
export type { CodeProblem } from "./src/check/problems.ts";
export type { CellRange } from "./src/check/language_server.ts";
export type {
  ApprovalEvent,
  ApprovalOptions,
  AttachOptions,
  CheckEvent,
  CheckMode,
  ChunkEvent,
  CodeExecutorOptions,
  DetachOptions,
  DurableOptions,
  ElicitationEvent,
  ExecuteOptions,
  ExecutionEvent,
  InputEvent,
  InstallPackagesOptions,
  NoteEvent,
  OptionalEvent,
  PlaceOptions,
  PythonOptions,
  RegisterServerOptions,
  ResultEvent,
  ResumeOptions,
  ServersOptions,
  StreamOptions,
} from "./src/executor/options.ts";
export type { TrustSetting } from "./src/files/own_entries.ts";
export type {
  CallEndedEvent,
  CallEvent,
  CallStartedEvent,
  LogEvent,
  ProgressEvent,
  ServerEvent,
  ToolsChangedEvent,
} from "./src/servers/events.ts";
export type {
  ExecutionResult,
  MimeBundle,
  Output,
  OutputImage,
  WholeText,
} from "./src/kernel/outputs.ts";
export type { CodeCompletions, CodeStatus, TypedCodeOptions } from "./src/kernel/typed_code.ts";
export { type InputEnd, type InputQuestion, InputRequest } from "./src/kernel/execution.ts";
export type { Refusal, RefusalType } from "./src/approval/question_queue.ts";
export { ApprovalRequest } from "./src/approval/request.ts";
export type {
  AcceptOptions,
  ApprovalCall,
  ApprovalKind,
  CallServer,
  CallSource,
  RejectOptions,
  Remember,
  RememberMatch,
  RememberScope,
} from "./src/approval/request.ts";
export type { ToolAnnotations } from "./src/mcp/tools.ts";
export type {
  ApprovalMode,
  ApprovalModes,
  ApprovalPolicy,
  ApprovalSetting,
  PolicyVerdict,
} from "./src/approval/policy.ts";
export { ElicitationRequest } from "./src/approval/questions.ts";
export type { ElicitationSource } from "./src/approval/questions.ts";
export type {
  BooleanField,
  ChoiceField,
  ChoicesField,
  ElicitationAnswer,
  ElicitationQuestion,
  FormField,
  FormFieldBase,
  FormOption,
  FormQuestion,
  FormValue,
  NumberField,
  TextField,
  UrlQuestion,
} from "./src/mcp/questions.ts";
export { generateMcpSources } from "./src/apigen/generate.ts";
export type { GeneratedTool, GenerateMcpSourcesOptions } from "./src/apigen/generate.ts";
export type {
  HttpServerParams,
  McpProtocol,
  ServerParams,
  StdioServerParams,
  VariableLookup,
} from "./src/mcp/params.ts";
export type { LoginOptions, LoginRequest } from "./src/mcp/oauth/login.ts";
export type { OAuthParams } from "./src/mcp/oauth/params.ts";
export type { Root, SamplingHandler, SamplingRequest, SamplingResult } from "./src/mcp/hooks.ts";
export type { ContentBlock } from "./src/mcp/results.ts";
export { McpServer } from "./src/mcp_server/mcp_server.ts";
export type { HttpToken } from "./src/mcp_server/http/bearer_tokens.ts";
export type { McpHttpEndpoint } from "./src/mcp_server/mcp_server.ts";
export type { McpHttpServerOptions } from "./src/mcp_server/option_keys.ts";
export type { HttpSessionsOptions } from "./src/mcp_server/http/sessions.ts";
export type { McpServerOptions } from "./src/mcp_server/session.ts";
export type { SandboxConfig } from "./src/sandbox/config.ts";
export type {
  CommandPlacement,
  ContainerPlacement,
  KubernetesPlacement,
  Placement,
  SshPlacement,
} from "./src/place/placement.ts";
export type { ResourceLimits } from "./src/sandbox/limits.ts";
export type { SandboxOptions } from "./src/sandbox/sandbox.ts";
export type { ExactJson, ExactObject, JsonObject, JsonValue, RawNumber } from "./src/json/exact.ts";
export { silentLogger, stderrLogger } from "./src/base/log.ts";
export type { Logger, LogLevel } from "./src/base/log.ts";
export * from "./src/base/errors.ts";
