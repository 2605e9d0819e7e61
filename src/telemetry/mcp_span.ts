import { ToolCallError } from "../errors.ts";
import { type Span, type SpanAttributes, startSpan } from "./span.ts";

/** Names come from executed code, and are not to fill anybody's disk. */
const MAX_NAME = 100;

/** A request to an MCP server, as its span tells of it. */
export interface McpRequest {
  /** The method, such as `tools/call`. */
  readonly method: string;
  /** The registered server. */
  readonly serverName: string;
  /** The tool or the prompt, where the method has one. */
  readonly target?: string | undefined;
  /** The request's id in the audit log. */
  readonly callId?: string | undefined;
  /** How the server is started or reached, where that is known. */
  readonly params?: { readonly command: string } | { readonly url: string } | undefined;
}

/**
 * Makes a request to an MCP server within a span, by OpenTelemetry's conventions for MCP clients. The
 * span says nothing of arguments, URIs of resources, or texts of servers.
 */
export async function traceMcpRequest<T>(
  request: McpRequest,
  work: (span: Span) => Promise<T>,
  failed: (result: T) => boolean = () => false,
): Promise<T> {
  using span = startMcpSpan(request);
  try {
    const result = await span.run(() => work(span));
    if (failed(result)) span.fail("tool_error");
    return result;
  } catch (error) {
    const code = error instanceof ToolCallError ? error.details.code : undefined;
    if (code !== undefined) span.set({ "rpc.response.status_code": `${code}` });
    span.fail(code?.toString() ?? (error instanceof ToolCallError ? error.type : "_OTHER"));
    throw error;
  }
}

function startMcpSpan(request: McpRequest): Span {
  const { method, serverName, callId, params } = request;
  const target = request.target?.slice(0, MAX_NAME);
  return startSpan(target === undefined ? method : `${method} ${target}`, {
    kind: "client",
    attributes: {
      "mcp.method.name": method,
      ...targetOf(method, target),
      ...peerOf(params),
      "ipybox.server.name": serverName.slice(0, MAX_NAME),
      "ipybox.call.id": callId,
    },
  });
}

function targetOf(method: string, target: string | undefined): SpanAttributes {
  switch (method) {
    case "tools/call":
      return { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": target };
    case "prompts/get":
      return { "gen_ai.prompt.name": target };
    default:
      return {};
  }
}

function peerOf(params: McpRequest["params"]): SpanAttributes {
  if (params === undefined) return {};
  if ("command" in params) return { "network.transport": "pipe" };
  // A host with `${VAR}` in it is not one.
  if (!URL.canParse(params.url) || params.url.includes("${")) return { "network.transport": "tcp" };
  const { protocol, hostname, port } = new URL(params.url);
  return {
    "network.transport": "tcp",
    "network.protocol.name": "http",
    "server.address": hostname,
    "server.port": Number(port || (protocol === "https:" ? 443 : 80)),
  };
}
