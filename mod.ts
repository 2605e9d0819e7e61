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
export type {
  CodeExecutorOptions,
  ExecuteOptions,
  InstallPackagesOptions,
  RegisterServerOptions,
  StreamOptions,
} from "./src/executor/options.ts";
export type {
  ApprovalEvent,
  ChunkEvent,
  ElicitationEvent,
  ExecutionEvent,
  InputEvent,
  NoteEvent,
  ResultEvent,
} from "./src/executor/options.ts";
export { generateMcpSources } from "./src/apigen/generate.ts";
export type { GenerateMcpSourcesOptions } from "./src/apigen/generate.ts";
export type { GeneratedTool } from "./src/apigen/generate.ts";
export type { StaleTools } from "./src/apigen/layout.ts";
export { ApprovalPage, type PageAskOptions } from "./src/approval/page/page.ts";
export type { ApprovalPageOptions } from "./src/approval/page/desk.ts";
export type { PageState } from "./src/approval/page/desk.ts";
export { ApprovalChannel } from "./src/approval/channel.ts";
export type { ApprovalWaitOptions, Approver } from "./src/approval/channel.ts";
export { Desk, Question } from "./src/approval/desk.ts";
export type { AttachOptions, DeskOptions } from "./src/approval/desk.ts";
export { ApprovalClient } from "./src/approval/client.ts";
export type { ApprovalClientOptions } from "./src/approval/client.ts";
export { ElicitationChannel, ElicitationRequest } from "./src/approval/questions.ts";
export type {
  Answerer,
  ElicitationRequestOptions,
  ElicitationSource,
} from "./src/approval/questions.ts";
export { ApprovalRequest } from "./src/approval/request.ts";
export type {
  AcceptOptions,
  ApprovalCall,
  ApprovalKind,
  ApprovalRequestOptions,
  ApprovalResponse,
  CallServer,
  CallSource,
  Refusal,
  RefusalType,
  RejectOptions,
  Remember,
  RememberMatch,
  RememberScope,
  ToolAnnotations,
} from "./src/approval/request.ts";
export type {
  ApprovalMode,
  ApprovalModes,
  ApprovalPolicy,
  ApprovalSetting,
  PolicyVerdict,
} from "./src/approval/policy.ts";
export { AuditLog } from "./src/approval/audit/log.ts";
export type { AuditLogOptions } from "./src/approval/audit/log.ts";
export type { AuditEntry, AuditOutcome } from "./src/approval/audit/entry.ts";
export { readAuditLog, verifyAuditLog } from "./src/approval/audit/reader.ts";
export type { AuditVerdict } from "./src/approval/audit/reader.ts";
export { loadPolicy, parsePolicy } from "./src/approval/rules/file.ts";
export type { LoadPolicyOptions } from "./src/approval/rules/file.ts";
export type { Match } from "./src/approval/rules/match.ts";
export type { PathJudgeOptions } from "./src/approval/rules/paths.ts";
export { PolicyRules } from "./src/approval/rules/rules.ts";
export type { PolicyExplanation, PolicySource, RuleFinding } from "./src/approval/rules/rules.ts";
export type {
  AnnotationName,
  ArgumentCondition,
  ArgumentTest,
  PolicyCall,
  PolicyDocument,
  PolicyEffect,
  PolicyKind,
  PolicyRule,
  PolicyTest,
  PolicyValue,
} from "./src/approval/rules/schema.ts";
export * from "./src/base/errors.ts";
export type { ExactJson, ExactObject, JsonObject, JsonValue, RawNumber } from "./src/json/exact.ts";
export type { ShellGuard } from "./src/kernel/bootstrap.ts";
export { KernelClient } from "./src/kernel/client.ts";
export type { KernelClientOptions } from "./src/kernel/client.ts";
export { Execution } from "./src/kernel/execution.ts";
export type { ExecuteOptions as KernelExecuteOptions } from "./src/kernel/execution.ts";
export type { OutputChunk } from "./src/kernel/spill_file.ts";
export { KernelGateway } from "./src/kernel/gateway.ts";
export type { KernelDoorTarget, KernelGatewayOptions } from "./src/kernel/gateway.ts";
export type { ByteStream } from "./src/base/streams.ts";
export type { GatewayAddress } from "./src/kernel/gateway_connection.ts";
export type { CodeCompletions, CodeStatus, TypedCodeOptions } from "./src/kernel/typed_code.ts";
export type { ExecutionResult, MimeBundle, Output, WholeText } from "./src/kernel/outputs.ts";
export { silentLogger, stderrLogger } from "./src/base/log.ts";
export type { Logger, LogLevel } from "./src/base/log.ts";
export type { ConnectOptions } from "./src/mcp/connect.ts";
export type { LoginOptions, LoginRequest } from "./src/mcp/oauth/login.ts";
export type { OAuthParams } from "./src/mcp/oauth/client.ts";
export type { CallToolOptions, ToolProgress } from "./src/mcp/hooks.ts";
export type { ServerDescription } from "./src/mcp/connection.ts";
export type { ContentBlock, ToolResult } from "./src/mcp/results.ts";
export { type InputQuestion, InputRequest } from "./src/kernel/execution.ts";
export type {
  ElicitationAnswer,
  ElicitationQuestion,
  FormQuestion,
  UrlQuestion,
} from "./src/mcp/questions.ts";
export type {
  BooleanField,
  ChoiceField,
  ChoicesField,
  FormField,
  FormFieldBase,
  FormOption,
  FormValue,
  NumberField,
  TextField,
} from "./src/mcp/questions.ts";
export type {
  Root,
  SamplingHandler,
  SamplingRequest,
  SamplingResult,
  ServerHooks,
  ServerLogMessage,
} from "./src/mcp/hooks.ts";
export type {
  HttpServerParams,
  McpProtocol,
  ServerParams,
  StdioServerParams,
  VariableLookup,
} from "./src/mcp/params.ts";
export { McpServer } from "./src/mcp_server/mcp_server.ts";
export type {
  McpHttpEndpoint,
  McpHttpServerOptions,
  McpServerOptions,
} from "./src/mcp_server/mcp_server.ts";
export type { ChangeMode, SessionOptions } from "./src/mcp_server/session.ts";
export { buildPythonEnvironment, findPython } from "./src/python/environment.ts";
export type {
  BuildOptions,
  EnvironmentRecipe,
  FindPythonOptions,
  PythonEnvironment,
} from "./src/python/environment.ts";
export type { SandboxConfig } from "./src/sandbox/config.ts";
export type { EffectiveLimits, ResourceLimits } from "./src/sandbox/limits.ts";
export type { SandboxOptions } from "./src/sandbox/sandbox.ts";
export { ServerEvents } from "./src/servers/events.ts";
export type {
  CallEndedEvent,
  CallEvent,
  CallStartedEvent,
  LogEvent,
  ProgressEvent,
  ServerEvent,
  ToolsChangedEvent,
} from "./src/servers/events.ts";
export { ServerRegistry } from "./src/servers/registry.ts";
export type { ServerRegistryOptions } from "./src/servers/registry.ts";
export { ToolRunner } from "./src/calls/runner.ts";
export type { CatalogCall, ToolCall } from "./src/calls/calls.ts";
export type { ToolRunnerOptions } from "./src/calls/runner.ts";
export type { CatalogMethod } from "./src/mcp/catalog.ts";
export { ToolServer } from "./src/calls/tool_server.ts";
export type { Door, ToolServerOptions } from "./src/calls/tool_server.ts";
