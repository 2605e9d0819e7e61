/**
 * MCP clients of three kinds, connected to `ipybox mcp` as a user's would be.
 *
 * @module
 */
// @ts-types="@modelcontextprotocol/sdk/client"
import { Client as OlderClient } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client } from "@modelcontextprotocol/client";
import { z } from "zod";
import { StdioTransport } from "../../src/mcp/stdio_transport.ts";
import { cliArguments } from "./cli.ts";
import { TempCache } from "./temp_cache.ts";

/** The SDK's lines, and the protocol's eras. */
export type ClientKind = "1.x" | "2.x legacy" | "2.x 2026-07-28";

/** All kinds. */
export const CLIENT_KINDS: readonly ClientKind[] = ["1.x", "2.x legacy", "2.x 2026-07-28"];

interface ToolsList {
  readonly tools: readonly ListedTool[];
}

const toolsSchema: z.ZodType<ToolsList> = z.object({
  tools: z.array(z.object({
    name: z.string(),
    description: z.string(),
    inputSchema: z.object({
      properties: z.record(z.string(), z.looseObject({ type: z.string() })),
      required: z.array(z.string()).default([]),
    }),
  })),
});
const resultSchema: z.ZodType<Omit<ToolEnd, "text">> = z.object({
  isError: z.boolean().default(false),
  content: z.array(z.looseObject({ type: z.string() })),
});
const questionSchema = z.object({ params: z.object({ message: z.string() }) });

/** A tool as its client sees it. */
export interface ListedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: {
    readonly properties: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    readonly required: readonly string[];
  };
}

/** What a tool call came to. */
export interface ToolEnd {
  readonly isError: boolean;
  /** All text blocks, a line each. */
  readonly text: string;
  readonly content: readonly Readonly<Record<string, unknown>>[];
}

/** What the client's user does with a form: gives a decision, or sends it away. */
export type Answer = (question: string) => Promise<string | null> | string | null;

/** Options of {@linkcode McpHost.start}. */
export interface McpHostOptions {
  readonly kind?: ClientKind;
  /** Arguments after `ipybox mcp`. */
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Answers elicitations; without it the client has none. */
  readonly answer?: Answer;
}

type Calls = Pick<OlderClient, "listTools" | "callTool" | "close">;

/** An MCP client and the `ipybox mcp` that it has started. */
export class McpHost implements AsyncDisposable {
  readonly #client: Calls | Client;
  readonly #transport: StdioTransport;
  readonly #parts: AsyncDisposableStack;

  private constructor(
    client: Calls | Client,
    transport: StdioTransport,
    parts: AsyncDisposableStack,
  ) {
    this.#client = client;
    this.#transport = transport;
    this.#parts = parts;
  }

  /**
   * Starts `ipybox mcp` and connects to it.
   *
   * @param options Which client, and how the server is started.
   * @returns The connected client.
   */
  static async start(options: McpHostOptions): Promise<McpHost> {
    const { kind = "2.x legacy", args, env = {}, answer } = options;
    await using parts = new AsyncDisposableStack();
    const cache = parts.use(await TempCache.create());
    const transport = new StdioTransport({
      command: Deno.execPath(),
      args: [...cliArguments, "mcp", ...args],
      env: { ...Deno.env.toObject(), NO_COLOR: "1", ...cache.env, ...env },
    });
    parts.defer(() => transport.close());
    const info = { name: "test", version: "1" };
    const capabilities = answer === undefined ? {} : { elicitation: {} };
    const reply = async (request: unknown) => {
      const { message } = questionSchema.parse(request).params;
      const decision = await answer?.(message) ?? null;
      if (decision === null) return { action: "decline" as const };
      return { action: "accept" as const, content: { decision } };
    };
    if (kind === "1.x") {
      const client = new OlderClient(info, { capabilities });
      if (answer !== undefined) client.setRequestHandler(ElicitRequestSchema, reply);
      await client.connect(transport);
      return new McpHost(client, transport, parts.move());
    }
    const mode = kind === "2.x legacy" ? "legacy" : { pin: "2026-07-28" } as const;
    const client = new Client(info, { capabilities, versionNegotiation: { mode } });
    if (answer !== undefined) client.setRequestHandler("elicitation/create", reply);
    await client.connect(transport);
    return new McpHost(client, transport, parts.move());
  }

  /** What the server has written to stderr, its last part. */
  get stderr(): string {
    return this.#transport.stderrTail;
  }

  /** The server's process. */
  get pid(): number {
    return this.#transport.pid ?? -1;
  }

  /** Lists the tools. */
  async tools(): Promise<readonly ListedTool[]> {
    return toolsSchema.parse(await this.#client.listTools()).tools;
  }

  /**
   * Calls a tool.
   *
   * @param name The tool.
   * @param args Its arguments.
   * @param signal Cancels the call.
   * @returns What came of it.
   */
  async call(
    name: string,
    args: Record<string, unknown> = {},
    signal?: AbortSignal,
  ): Promise<ToolEnd> {
    const client = this.#client;
    const options = { timeout: 60_000, ...(signal === undefined ? {} : { signal }) };
    const { isError, content } = resultSchema.parse(
      client instanceof Client
        ? await client.callTool({ name, arguments: args }, options)
        : await client.callTool({ name, arguments: args }, undefined, options),
    );
    const text = content.map((block) => typeof block.text === "string" ? block.text : "")
      .filter((part) => part !== "").join("\n");
    return { isError, content, text };
  }

  /** Runs a cell that must not fail. */
  async execute(code: string): Promise<string> {
    const { isError, text } = await this.call("execute_ipython_cell", { code });
    if (isError) throw new Error(text);
    return text;
  }

  /** Ends the connection as clients do: stdin first. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.close();
    await this.#parts.disposeAsync();
  }
}
