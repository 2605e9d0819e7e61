/**
 * OpenTelemetry spans, if a provider is registered (Deno registers its own with `OTEL_DENO=true`).
 * Only then is the API loaded; without a provider, a span costs next to nothing.
 *
 * @module
 */
import type * as otel from "@opentelemetry/api";

/** Attributes of a span. Never the arguments or results of calls. */
type SpanAttributes = Readonly<Record<string, string | number | undefined>>;

/** Options of {@linkcode startSpan}. */
interface SpanOptions {
  /** `"client"` for requests to another process. */
  readonly kind?: "client" | "internal";
  /** Attributes known from the start. */
  readonly attributes?: SpanAttributes;
}

/** A running operation. Disposing it ends the span. */
export interface Span extends Disposable {
  set(attributes: SpanAttributes): void;
  /** Marks it as failed, with the class of the error. */
  fail(type: string): void;
  /** Runs work as a child of it. */
  run<T>(work: () => T): T;
}

type Api = typeof otel;

/** Where providers of any 1.x version of the API register. */
const REGISTRY = Symbol.for("opentelemetry.js.api.1");

let api: Api | undefined;

/** Loads the API if a provider is registered. Until then, no spans are recorded. */
export async function loadTelemetry(): Promise<void> {
  if (REGISTRY in globalThis) api ??= await import("@opentelemetry/api");
}

/** Starts a span as a child of the active one. */
export function startSpan(name: string, options: SpanOptions = {}): Span {
  return api === undefined ? NO_SPAN : new RecordedSpan(api, name, options);
}

export function recordsSpans(): boolean {
  return api !== undefined;
}

/** Runs work in a captured trace context. */
export type Within = <T>(work: () => T) => T;

/** Captures the active trace context. */
export function captureTrace(): Within {
  if (api === undefined) return (work) => work();
  const { context } = api;
  const active = context.active();
  return (work) => context.with(active, work);
}

/** The active span as W3C Trace Context, without baggage, which may contain anything. */
export function traceContext(): Readonly<Record<string, string>> {
  if (api === undefined) return {};
  const { context, propagation } = api;
  const { traceparent, tracestate } = inject(propagation, context.active());
  if (traceparent === undefined) return {};
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
}

function inject(
  propagation: otel.PropagationAPI,
  active: otel.Context,
): Readonly<Record<string, string | undefined>> {
  const carrier: Record<string, string> = {};
  propagation.inject(active, carrier);
  return carrier;
}

class RecordedSpan implements Span {
  readonly #api: Api;
  readonly #span: otel.Span;
  readonly #context: otel.Context;

  constructor(api: Api, name: string, { kind, attributes = {} }: SpanOptions) {
    this.#api = api;
    const above = api.context.active();
    this.#span = api.trace.getTracer("ipybox").startSpan(name, {
      kind: kind === "client" ? api.SpanKind.CLIENT : api.SpanKind.INTERNAL,
    }, above);
    this.#context = api.trace.setSpan(above, this.#span);
    this.set(attributes);
  }

  set(attributes: SpanAttributes): void {
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== undefined) this.#span.setAttribute(name, value);
    }
  }

  fail(type: string): void {
    this.#span.setAttribute("error.type", type);
    this.#span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
  }

  run<T>(work: () => T): T {
    return this.#api.context.with(this.#context, work);
  }

  [Symbol.dispose](): void {
    this.#span.end();
  }
}

const NO_SPAN: Span = {
  set() {},
  fail() {},
  run: (work) => work(),
  [Symbol.dispose]() {},
};

/** Executed code chooses the names, and must not fill the disk with them. */
const MAX_NAME = 100;

/** A request to an MCP server, as its span describes it. */
export interface McpRequest {
  /** The method, such as `tools/call`. */
  readonly method: string;
  readonly serverName: string;
  /** The tool or the prompt, where the method has one. */
  readonly target?: string;
  /** The request's id in the audit log. */
  readonly callId?: string;
  /** How the server is started or reached, if known. */
  readonly params?: { readonly command: string } | { readonly url: string };
}

/** Starts the span of a request to an MCP server. It contains no arguments, URIs or text from servers. */
export function startMcpSpan(request: McpRequest): Span {
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
  // A URL with `${VAR}` in it has no known host.
  if (!URL.canParse(params.url) || params.url.includes("${")) return { "network.transport": "tcp" };
  const { protocol, hostname, port } = new URL(params.url);
  return {
    "network.transport": "tcp",
    "network.protocol.name": "http",
    "server.address": hostname,
    "server.port": Number(port || (protocol === "https:" ? 443 : 80)),
  };
}
