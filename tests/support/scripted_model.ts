/**
 * A model that follows a script, for agent programs that are to be tried without one: a server on
 * loopback that speaks the protocols of Anthropic (Messages), OpenAI (Responses and Chat Completions)
 * and Google (`generateContent`), and keeps what it is sent.
 *
 * @module
 */
import { z } from "zod";
import { type Protocol, PROTOCOLS } from "./model_protocols.ts";

/** A step of a script: a tool call, and what the test does before the model asks for it. */
export interface Step {
  /** The tool, by the name that its MCP server gives it. */
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** Done before the call is given, with what the model was given for the call before. */
  readonly before?: (previous: Seen | undefined) => Promise<void>;
}

/** What a model was given for a call. */
export interface Seen {
  /** All text, its blocks one after the other. */
  readonly text: string;
  /** How many blocks of text there were. */
  readonly texts: number;
  /** Images in base 64. */
  readonly images: readonly string[];
  /** The whole request that brought it. */
  readonly request: string;
}

/** A tool as a program offers it to a model. */
export interface OfferedTool {
  readonly name: string;
  /** Codex offers the tools of a server as one. */
  readonly namespace?: string;
  readonly description: string;
  /** The schema of its arguments. */
  readonly parameters: unknown;
}

/** What a model answers with: calls of offered tools, or a text. */
export type Answer =
  | {
    readonly id: string;
    readonly tool: OfferedTool;
    readonly args: Readonly<Record<string, unknown>>;
  }
  | { readonly text: string };

/** Ids of calls that wait for tools; what they give is not part of the script. */
const WAITING = "wait";

/** Tools by which programs wait for their MCP servers, and what is passed to them. */
const WAITS: Readonly<Record<string, Record<string, unknown>>> = { WaitForMcpServers: {} };

/** The scripted model. Disposing closes it. */
export class ScriptedModel implements AsyncDisposable {
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #script: readonly Step[];
  readonly #seen: Seen[] = [];
  readonly #prepared = new Map<number, Promise<void>>();
  readonly #errors: unknown[] = [];
  #offered: readonly OfferedTool[] = [];
  #first: string | undefined;

  private constructor(script: readonly Step[]) {
    this.#script = script;
    const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    this.#server = Deno.serve(options, (request) => this.#answer(request));
  }

  /**
   * Starts one.
   *
   * @param script What it does; after that it says that it is done.
   * @returns The model, which listens.
   */
  static play(script: readonly Step[]): ScriptedModel {
    return new ScriptedModel(script);
  }

  /** Its address; programs add the path of their protocol. */
  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** The tools that it was offered at the first step. */
  get offered(): readonly OfferedTool[] {
    return this.#offered;
  }

  /** The request of the first step. */
  get firstRequest(): string {
    return this.#first ?? "";
  }

  /** What it was given for the calls so far, in order. */
  get seen(): readonly Seen[] {
    return this.#seen;
  }

  /** Throws what went wrong in it, which its clients may have taken for a reason to try again. */
  check(): void {
    if (this.#errors.length > 0) throw this.#errors[0];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const body = await request.text();
    const protocol = PROTOCOLS.find(({ path }) => path.test(pathname));
    if (protocol === undefined) return other(pathname);
    try {
      const message = z.looseObject({}).parse(JSON.parse(body));
      const streams = message.stream === true || pathname.includes(":stream");
      const answer = await this.#next(protocol, { message, body });
      return streams ? protocol.stream(answer) : Response.json(protocol.whole(answer));
    } catch (error) {
      this.#errors.push(error);
      return new Response(String(error), { status: 400 });
    }
  }

  async #next(
    protocol: Protocol,
    { message, body }: { message: Readonly<Record<string, unknown>>; body: string },
  ): Promise<Answer> {
    const offered = protocol.offered(message);
    const step = (at: number) => this.#script[at];
    if (!offered.some((tool) => isTool(tool, this.#script[0]?.tool ?? ""))) {
      const wait = offered.find(({ name }) => name in WAITS);
      if (wait === undefined) return { text: "{}" }; // a title, a summary, and such
      return { id: `${WAITING}_${crypto.randomUUID()}`, tool: wait, args: WAITS[wait.name] ?? {} };
    }
    const results = protocol.results(message).filter(({ id }) => !id.includes(WAITING));
    const at = results.length;
    if (at === 0) {
      this.#offered = offered;
      this.#first ??= body;
    }
    // Programs may send a request again.
    const last = results.at(-1);
    if (last !== undefined) this.#seen[at - 1] ??= { ...last, request: body };
    const next = step(at);
    if (next === undefined) return { text: "Done." };
    const { tool: name, args, before } = next;
    if (before !== undefined) {
      if (!this.#prepared.has(at)) this.#prepared.set(at, before(this.#seen[at - 1]));
      await this.#prepared.get(at);
    }
    const tool = offered.find((tool) => isTool(tool, name));
    if (tool === undefined) throw new Error(`The program offers no tool ${name}`);
    return { id: `call_${at}`, tool, args };
  }
}

/** Whether an offered tool is the one that its server calls by this name. */
function isTool({ name }: OfferedTool, wanted: string): boolean {
  return name === wanted || name.endsWith(`_${wanted}`);
}

/** What programs ask for besides: lists of models, counts of tokens. */
function other(pathname: string): Response {
  if (/count_?tokens/i.test(pathname)) {
    return Response.json({ input_tokens: 100, totalTokens: 100 });
  }
  return Response.json({ object: "list", data: [], models: [] });
}
