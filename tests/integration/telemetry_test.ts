import { assert, assertEquals, assertFalse } from "@std/assert";
import { z } from "zod";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

const root = new URL("../../", import.meta.url).pathname;

const attribute = z.object({
  key: z.string(),
  value: z.looseObject({ stringValue: z.string().optional() }),
});
const span = z.object({
  traceId: z.string(),
  spanId: z.string(),
  parentSpanId: z.string(),
  name: z.string(),
  kind: z.number(),
  attributes: z.array(attribute).transform((list) =>
    Object.fromEntries(list.map(({ key, value }) => [key, value.stringValue]))
  ),
  status: z.object({ code: z.number() }),
});
const traces = z.object({
  resourceSpans: z.array(z.object({
    scopeSpans: z.array(z.object({
      scope: z.object({ name: z.string() }),
      spans: z.array(span),
    })),
  })),
});

type Span = z.infer<typeof span>;

/** Takes what programs export by OTLP over HTTP, as a collector does. */
class Collector implements AsyncDisposable {
  /** The bodies, as they came. */
  readonly bodies: string[] = [];
  readonly #server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const body = await request.text();
      if (new URL(request.url).pathname === "/v1/traces") this.bodies.push(body);
      return Response.json({});
    },
  );

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Our own spans, and not those that Deno makes of requests. */
  get spans(): Span[] {
    return this.bodies.flatMap((body) => traces.parse(JSON.parse(body)).resourceSpans)
      .flatMap(({ scopeSpans }) => scopeSpans)
      .flatMap(({ scope, spans }) => scope.name === "ipybox" ? spans : []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

async function runHost(env: Record<string, string>): Promise<{ line: string; token: string }> {
  await using workspace = await TempFolder.create();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-check",
      `--config=${root}deno.json`,
      `${root}tests/fixtures/traced_host.ts`,
      workspace.path,
    ],
    env: { IPYBOX_PYTHON: testPython(), ...env },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  return z.object({ line: z.string(), token: z.string() })
    .parse(JSON.parse(new TextDecoder().decode(stdout)));
}

const LINE = z.object({
  params: z.object({ _meta: z.record(z.string(), z.unknown()) }),
});

Deno.test("executions, tool calls and approvals are spans where OpenTelemetry is on", async () => {
  await using collector = new Collector();

  const { line, token } = await runHost({
    OTEL_DENO: "true",
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  });

  const { spans } = collector;
  const byId = new Map(spans.map((span) => [span.spanId, span]));
  const named = (name: string, above: Span | undefined) =>
    spans.filter((span) => span.name === name && byId.get(span.parentSpanId) === above);
  const [execution] = spans.filter(({ name }) => name === "execute_code");
  assert(execution !== undefined);
  assertEquals(execution.attributes, {
    "error.type": "KeyError",
    "ipybox.kernel.state": "kept",
  });
  assertEquals([...new Set(spans.map(({ traceId }) => traceId))], [execution.traceId]);

  const [echo] = named("tools/call echo", execution);
  const { "ipybox.call.id": id, ...known } = echo?.attributes ?? {};
  assert(id !== undefined);
  assertEquals(known, {
    "mcp.method.name": "tools/call",
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "echo",
    "network.transport": "pipe",
    "ipybox.server.name": "raw",
    "ipybox.approval.decision": "allow",
    "ipybox.approval.by": "approver",
  });
  assertEquals([echo?.kind, echo?.status.code], [3, 0]);
  assertEquals(named("approval", echo).map(({ attributes }) => attributes), [
    { "ipybox.approval.kind": "tool", "ipybox.approval.decision": "allow" },
  ]);
  const { progressToken: _token, ...received } = LINE.parse(JSON.parse(line)).params._meta;
  assertEquals(received, { traceparent: `00-${execution.traceId}-${echo?.spanId}-01` });

  const [count] = named("tools/call count", execution);
  assertEquals([count?.attributes["error.type"], count?.status.code], ["approval_rejected", 2]);
  assertEquals(named("approval", count).map(({ attributes }) => attributes), [{
    "ipybox.approval.kind": "tool",
    "ipybox.approval.decision": "deny",
    "ipybox.approval.refusal": "approval_rejected",
  }]);
  const [fail] = named("tools/call fail", execution);
  assertEquals(fail?.attributes["error.type"], "-32000");
  assertEquals(fail?.attributes["rpc.response.status_code"], "-32000");
  const shell = named("approval", execution).map(({ attributes }) => attributes);
  assertEquals(shell, [{ "ipybox.approval.kind": "shell", "ipybox.approval.decision": "allow" }]);

  const exported = collector.bodies.join("\n");
  for (const secret of ["secret-argument", "secret-reason", token]) {
    assertFalse(exported.includes(secret), secret);
  }
});

Deno.test("nothing is recorded or sent to servers where OpenTelemetry is off", async () => {
  const { line } = await runHost({});
  assertEquals(Object.keys(LINE.parse(JSON.parse(line)).params._meta), ["progressToken"]);
});
