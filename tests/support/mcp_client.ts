/**
 * MCP clients of three kinds, connected to `ipybox mcp` as a user's would be.
 *
 * @module
 */
// @ts-types="@modelcontextprotocol/sdk/client"
import { Client as OlderClient } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/client/streamableHttp"
import { StreamableHTTPClientTransport as OlderHttpTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import {
  ElicitRequestSchema,
  ResourceListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { z } from "zod";
import { bodyOf } from "../../src/base/http.ts";
import { allDone } from "../../src/base/signals.ts";
import { PlainStdioTransport } from "./plain_stdio.ts";
import { cliArguments } from "./cli.ts";
import { TempCache } from "./temp_cache.ts";
import { ownProgram, type ProgramPath } from "../../src/process/program.ts";

/** The SDK's lines, and the protocol's eras. */
export type ClientKind = "1.x" | "2.x legacy" | "2.x 2026-07-28";

/** All kinds. */
export const CLIENT_KINDS: readonly ClientKind[] = ["1.x", "2.x legacy", "2.x 2026-07-28"];

/** One kind for each of the protocol's eras, for what does not depend on the SDK's line. */
export const CLIENT_ERAS: readonly ClientKind[] = ["2.x legacy", "2.x 2026-07-28"];

/**
 * Runs a test for clients of both eras side by side: one that waits takes no longer for both of them.
 *
 * @param test The test.
 * @throws {Error} It failed; names the kind.
 */
export async function eachEra(test: (kind: ClientKind) => Promise<void>): Promise<void> {
  await allDone(CLIENT_ERAS.map((kind) =>
    test(kind).catch((cause) => {
      throw new Error(`With a ${kind} client: ${cause}`, { cause });
    })
  ));
}

interface ToolsList {
  readonly tools: readonly ListedTool[];
}

const toolsSchema: z.ZodType<ToolsList> = z.object({
  tools: z.array(z.object({
    name: z.string(),
    title: z.string().optional(),
    description: z.string(),
    annotations: z.record(z.string(), z.unknown()).optional(),
    outputSchema: z.record(z.string(), z.unknown()).optional(),
    inputSchema: z.looseObject({
      properties: z.record(z.string(), z.looseObject({ type: z.string() })),
      required: z.array(z.string()).default([]),
    }),
  })),
});
const resultSchema = z.object({
  isError: z.boolean().default(false),
  content: z.array(z.looseObject({ type: z.string() })),
  structuredContent: z.unknown().optional(),
  _meta: z.record(z.string(), z.unknown()).default({}),
});
const questionSchema = z.object({
  params: z.looseObject({ message: z.string() }),
});
const resourcesSchema = z.object({
  resources: z.array(z.looseObject({ uri: z.string(), name: z.string() })),
});
const contentsSchema = z.object({
  contents: z.array(
    z.looseObject({ uri: z.string(), text: z.string().optional(), blob: z.string().optional() }),
  ),
});
const messagesSchema = z.object({
  messages: z.array(z.object({ role: z.string(), content: z.object({ text: z.string() }) })),
});

/** A tool as its client sees it. */
export interface ListedTool {
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly outputSchema?: Readonly<Record<string, unknown>>;
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
  /** What the result has besides, apart from the protocol's own. */
  readonly others: readonly string[];
}

/** What the server tells while a tool runs. */
export interface Progress {
  readonly progress: number;
  readonly message?: string;
}

/** Options of {@linkcode McpHost.call}. */
export interface CallOptions {
  /** Cancels the call. */
  readonly signal?: AbortSignal;
  /** Told of progress. */
  readonly onProgress?: (progress: Progress) => void;
}

/**
 * What the client's user does with a form: gives a decision or all fields, or refuses (`null`). A client
 * that has nobody to ask cancels (`undefined`).
 */
export type Answer = (
  question: string,
  params: Readonly<Record<string, unknown>>,
) => Promise<Filled> | Filled;

type Filled = string | Record<string, string | number | boolean | string[]> | null | undefined;

/** Options of {@linkcode McpHost.start}. */
export interface McpHostOptions {
  readonly kind?: ClientKind;
  /** What is started in place of this checkout's `ipybox mcp`. */
  readonly program?: { readonly command: ProgramPath; readonly args: readonly string[] };
  /** Arguments after `ipybox mcp`. */
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Where it starts. */
  readonly cwd?: string;
  /** Answers elicitations; without it the client has none. */
  readonly answer?: Answer;
  /** Told when the server says that its resources are others. */
  readonly onResourcesChanged?: () => void;
}

/** Where an HTTP server is, and what opens it. */
export interface HttpAddress {
  readonly url: URL;
  readonly token: string;
}

/** An MCP client, and the `ipybox mcp` that it has started or found. */
export class McpHost implements AsyncDisposable {
  readonly #client: OlderClient | Client;
  readonly #process: PlainStdioTransport | undefined;
  readonly #parts: AsyncDisposableStack;

  private constructor(
    client: OlderClient | Client,
    process: PlainStdioTransport | undefined,
    parts: AsyncDisposableStack,
  ) {
    this.#client = client;
    this.#process = process;
    this.#parts = parts;
  }

  /**
   * Starts `ipybox mcp` and connects to it.
   *
   * @param options Which client, and how the server is started.
   * @returns The connected client.
   */
  static async start(options: McpHostOptions): Promise<McpHost> {
    const { program, args, env = {}, cwd } = options;
    const { command, args: own } = program ??
      { command: ownProgram(), args: [...cliArguments, "mcp"] };
    await using parts = new AsyncDisposableStack();
    const cache = parts.use(await TempCache.create());
    const transport = new PlainStdioTransport({
      command,
      args: [...own, ...args],
      env: { ...Deno.env.toObject(), NO_COLOR: "1", ...cache.env, ...env },
      cwd,
    });
    parts.defer(() => transport.close());
    const client = await connect(options, transport, transport);
    return new McpHost(client, transport, parts.move());
  }

  /**
   * Connects to an `ipybox mcp --http` that runs.
   *
   * @param address Where it is.
   * @param options Which client.
   * @returns The connected client.
   */
  static async join(
    { url, token }: HttpAddress,
    options: Omit<McpHostOptions, "program" | "args" | "env" | "cwd"> = {},
  ): Promise<McpHost> {
    await using parts = new AsyncDisposableStack();
    const requestInit = { headers: { Authorization: `Bearer ${token}` } };
    const older = new OlderHttpTransport(url, { requestInit, fetch: lastingFetch });
    const newer = new StreamableHTTPClientTransport(url, { requestInit, fetch: lastingFetch });
    parts.defer(() => older.close());
    parts.defer(() => newer.close());
    const client = await connect(options, older, newer);
    return new McpHost(client, undefined, parts.move());
  }

  /** What the server has written to stderr, its last part. */
  get stderr(): string {
    return this.#process?.stderrTail ?? "";
  }

  /** The server's process. */
  get pid(): number {
    return this.#process?.pid ?? -1;
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
    { signal, onProgress }: CallOptions = {},
  ): Promise<ToolEnd> {
    const client = this.#client;
    const options = {
      timeout: 180_000,
      ...(signal === undefined ? {} : { signal }),
      ...(onProgress === undefined ? {} : { onprogress: onProgress }),
    };
    const { isError, content, structuredContent, _meta } = resultSchema.parse(
      client instanceof Client
        ? await client.callTool({ name, arguments: args }, options)
        : await client.callTool({ name, arguments: args }, undefined, options),
    );
    const text = content.map((block) => typeof block.text === "string" ? block.text : "")
      .filter((part) => part !== "").join("\n");
    const others = Object.keys(_meta).filter((key) => !key.startsWith("io.modelcontextprotocol/"));
    if (structuredContent !== undefined) others.push("structuredContent");
    return { isError, content, text, others };
  }

  /** Opens a session, as clients of the newer era do, and gives its handle. */
  async openSession(): Promise<string> {
    const { text } = await this.call("open_session");
    const session = /^Opened session (\S+):/.exec(text)?.[1];
    if (session === undefined) throw new Error(text);
    return session;
  }

  /** Lists the resources. */
  async resources(): Promise<readonly Readonly<Record<string, unknown>>[]> {
    return resourcesSchema.parse(await this.#client.listResources()).resources;
  }

  /** Lists the templates of resources. */
  async templates(): Promise<readonly string[]> {
    const { resourceTemplates } = await this.#client.listResourceTemplates();
    return resourceTemplates.map(({ uriTemplate }) => uriTemplate);
  }

  /**
   * Reads a resource.
   *
   * @param uri Its address.
   * @returns Its text, or its bytes in base 64.
   */
  async read(uri: string): Promise<string> {
    const [content] = contentsSchema.parse(await this.#client.readResource({ uri })).contents;
    return content?.text ?? content?.blob ?? "";
  }

  /**
   * Completes a variable of a template of resources, or an argument of a prompt.
   *
   * @param ref The template or the prompt.
   * @param argument What is completed.
   * @param others The other variables.
   * @returns The values.
   */
  async complete(
    ref: { type: "ref/resource"; uri: string } | { type: "ref/prompt"; name: string },
    argument: { name: string; value: string },
    others: Record<string, string> = {},
  ): Promise<readonly string[]> {
    const context = { arguments: others };
    return (await this.#client.complete({ ref, argument, context })).completion.values;
  }

  /** Lists the names of the prompts. */
  async prompts(): Promise<readonly string[]> {
    return (await this.#client.listPrompts()).prompts.map(({ name }) => name);
  }

  /** Gets the text of a prompt. */
  async prompt(name: string, args: Record<string, string> = {}): Promise<string> {
    const answer = await this.#client.getPrompt({ name, arguments: args });
    return messagesSchema.parse(answer).messages.map(({ content }) => content.text).join("\n");
  }

  /** What the server says of itself. */
  get instructions(): string {
    return this.#client.getInstructions() ?? "";
  }

  /** Runs a cell that must not fail. */
  async execute(code: string): Promise<string> {
    const { isError, text } = await this.call("execute_ipython_cell", { code });
    if (isError || text.includes("Traceback (most recent call last)")) throw new Error(text);
    return text;
  }

  /** Ends the connection as clients do: stdin first. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.close();
    await this.#parts.disposeAsync();
  }
}

/** Deno's `fetch()`, which forgets to close an aborted response once the signal was collected as garbage. */
async function lastingFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  return new Response(bodyOf(response, init?.signal), response);
}

/** Connects the client of a kind, each line of the SDK over a transport of its own. */
async function connect(
  options: Omit<McpHostOptions, "program" | "args" | "env" | "cwd">,
  older: Parameters<OlderClient["connect"]>[0],
  newer: Parameters<Client["connect"]>[0],
): Promise<OlderClient | Client> {
  const { kind = "2.x legacy", answer, onResourcesChanged } = options;
  const info = { name: "test", version: "1" };
  const capabilities = answer === undefined ? {} : { elicitation: { form: {}, url: {} } };
  const reply = async (request: unknown) => {
    const { params } = questionSchema.parse(request);
    const filled = answer === undefined ? null : await answer(params.message, params);
    if (filled === undefined) return { action: "cancel" as const };
    if (filled === null) return { action: "decline" as const };
    const content = typeof filled === "string" ? { decision: filled } : filled;
    return { action: "accept" as const, content };
  };
  if (kind === "1.x") {
    const client = new OlderClient(info, { capabilities });
    if (answer !== undefined) client.setRequestHandler(ElicitRequestSchema, reply);
    if (onResourcesChanged !== undefined) {
      client.setNotificationHandler(ResourceListChangedNotificationSchema, onResourcesChanged);
    }
    await client.connect(older);
    return client;
  }
  const mode = kind === "2.x legacy" ? "legacy" : { pin: "2026-07-28" } as const;
  const client = new Client(info, {
    capabilities,
    versionNegotiation: { mode },
    ...(onResourcesChanged === undefined ? {} : {
      listChanged: { resources: { autoRefresh: false, onChanged: onResourcesChanged } },
    }),
  });
  if (answer !== undefined) client.setRequestHandler("elicitation/create", reply);
  await client.connect(newer);
  return client;
}
