import { quoted } from "../approval/call_text.ts";
import type { ApprovalGate, DecideOptions } from "../approval/gate.ts";
import { type CallObserver, Cell, ObservedCall } from "../approval/observed_call.ts";
import type { ApprovalCall, CallSource } from "../approval/request.ts";
import { ToolCallError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { nearestNames } from "../base/nearest.ts";
import type { McpRequest } from "../base/telemetry.ts";
import { sha256 } from "../json/digest.ts";
import { type ExactObject, sealObject, toExact } from "../json/exact.ts";
import { checkArguments } from "../mcp/arguments_check.ts";
import { type CatalogMethod, checkCatalogParams, isListMethod } from "../mcp/catalog.ts";
import type { CallToolOptions, ToolProgress } from "../mcp/hooks.ts";
import type { ServerParams } from "../mcp/params.ts";
import type { ToolResult } from "../mcp/results.ts";
import { type Tool, toolHash } from "../mcp/tools.ts";
import type { JournalEntry } from "./journal.ts";
import type { ToolChanges } from "../servers/changes.ts";
import type { ServerEvents } from "../servers/events.ts";
import { launchText, serverFacets, toolFacets } from "../servers/facets.ts";
import type { McpPool } from "../servers/pool.ts";
import type { ServerRegistry } from "../servers/registry.ts";

/** A call of a tool whose arguments are sealed. */
export interface ToolCall {
  /** The registered server. */
  readonly serverName: string;
  /** The tool's name on the wire. */
  readonly toolName: string;
  /** The arguments, which are sent as they are. */
  readonly arguments: ExactObject;
  /** The line that calls, as far as the code that calls tells the truth. */
  readonly source?: CallSource;
  /**
   * What the journal has of it, where there is one.
   *
   * @internal
   */
  readonly entry?: JournalEntry;
}

/** A request for what a server offers beside tools. */
export interface CatalogCall {
  /** The registered server. */
  readonly serverName: string;
  /** What is asked, in the protocol's own names. */
  readonly method: CatalogMethod;
  /** The parameters, in the protocol's own names. */
  readonly params: Readonly<Record<string, unknown>>;
  /** The line that asks, as far as the code that asks tells the truth. */
  readonly source?: CallSource;
}

/** What {@linkcode Calls} are made with. */
interface CallsOptions {
  /** The servers. */
  readonly registry: ServerRegistry;
  /** The connections to them. */
  readonly pool: McpPool;
  /** Decides on each call. */
  readonly gate: ApprovalGate;
  /** Learn of each step of each call, in this order. */
  readonly observers: readonly CallObserver[];
  /** Receives progress, and which calls are running. */
  readonly events: ServerEvents;
  /** Follows what calls change in the list of tools. */
  readonly changes: ToolChanges;
  /** How long a call may take once it is approved, in milliseconds. */
  readonly callTimeoutMs: number | undefined;
  /** Receives servers that do not describe their tools. */
  readonly log: Logger;
}

/** Options of {@linkcode Calls.approve}. */
export interface ApproveOptions extends Pick<DecideOptions, "signal" | "check"> {
  /** The call as the log may keep it, where its arguments may be secret. */
  readonly noted?: ApprovalCall;
  /** What the journal has of it, where there is one. */
  readonly entry?: JournalEntry;
}

/** A request to a server: what differs between tools, resources and lists. */
interface ServerRequest<T> {
  readonly call: ApprovalCall;
  readonly method: string;
  /** The tool or the prompt, where the method has one. */
  readonly target: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Whether it must be allowed. A list, which sends nothing of the caller's, must not be denied. */
  readonly needsApproval: boolean;
  /** What the journal has of it, where there is one. */
  readonly entry?: JournalEntry;
  /** Asks the server for its description of the tool, for the approver. */
  readonly findTool?: () => Promise<Tool | undefined>;
  /** Says what is wrong with arguments that an approver edited. */
  readonly check: (edited: ExactObject, tool: Tool | undefined) => string | undefined;
  /** Sends it, as a part of the call. */
  readonly send: (args: ExactObject, observed: ObservedCall) => Promise<T>;
  /** Whether a result says that the request failed. */
  readonly hasFailed?: (result: T) => boolean;
}

/** More of a description than a person would read. */
const MAX_DESCRIPTION = 20_000;
const MAX_TITLE = 200;
/** How many notes are kept for a reader: servers cause them. */
const MAX_NOTES = 20;

/** Makes calls. Each is decided on and noted before it is sent, and sent as it was shown. */
export class Calls {
  readonly #options: CallsOptions;
  /** The servers of which it was said where their files are. */
  readonly #noted = new Set<string>();
  #notes: string[] = [];
  #cell: Cell | undefined;

  /** @param options The gate, the observers and the servers. */
  constructor(options: CallsOptions) {
    this.#options = options;
  }

  /** Begins an execution. Its span is the one that is running. */
  enterCell(code: string, names: readonly string[] = []): Disposable {
    const cell = new Cell(code, names);
    this.#cell = cell;
    const consents = this.#options.gate.consents.enterCell();
    return {
      [Symbol.dispose]: () => {
        cell[Symbol.dispose]();
        consents[Symbol.dispose]();
      },
    };
  }

  /** Gives a line of the code that is executed. */
  sourceAt(line: number): CallSource | undefined {
    return this.#cell?.sourceAt(line);
  }

  /** Takes what code should know of the servers that it called, each in a line. */
  takeNotes(): string[] {
    const notes = this.#notes;
    this.#notes = [];
    return notes;
  }

  /** The order in which a request to a server is made. */
  async #make<T>(request: ServerRequest<T>): Promise<T> {
    const { registry, pool, gate } = this.#options;
    const { call, method, target, signal, needsApproval, entry, findTool, check } = request;
    const { serverName } = call;

    // Begin.
    const observed = this.#begin(call, {
      method,
      serverName,
      target,
      params: registry.get(serverName),
    }, entry);
    return await observed.run(async () => {
      // Once: what an earlier host may have sent is not even asked about.
      entry?.requireUnsent();

      // Judge: what the policy denies does not even start a server.
      const denial = gate.judge(call);
      if (denial !== undefined) observed.obey(denial);

      // Describe.
      const params = pool.requireRegistered(serverName);
      const tool = await findTool?.();
      observed.tool = tool;
      observed.target = { serverHash: serverHash(params), toolHash: tool && toolHash(tool) };

      let args = call.arguments;
      if (needsApproval) {
        // Decide: by the policy, what is remembered, or a person.
        const decision = await gate.decide({ ...call, ...descriptionOf(params, tool) }, {
          signal,
          facets: () => [
            ...serverFacets(params),
            ...(findTool === undefined ? [] : toolFacets(tool)),
          ],
          check: (edited) => check(edited, tool),
          earlier: entry?.decisionFor(observed.target),
        });
        observed.obey(decision);
        args = decision.edited ?? args;

        // Note.
        await observed.send();
      }

      // Check that it still reaches what was shown, and send: nothing is awaited between the two.
      requireSameServer(serverName, params, registry.get(serverName));
      if (tool !== undefined) {
        requireSameTool(serverName, tool, await findTool?.());
        requireSameServer(serverName, params, registry.get(serverName));
      }
      return await request.send(args, observed);
    }, (result) => request.hasFailed?.(result) === true ? "tool_error" : "ok"); // End.
  }

  /** Has something approved that its caller does, such as to run a shell command. */
  async approve(call: ApprovalCall, options: ApproveOptions = {}): Promise<ExactObject> {
    const { noted = call, entry, ...decide } = options;
    const observed = this.#begin(noted, undefined, entry);
    return await observed.run(async () => {
      entry?.requireUnsent();
      const asked = entry?.askedAt === undefined ? call : { ...call, askedAt: entry.askedAt };
      const earlier = entry?.decisionFor(undefined);
      const decision = await this.#options.gate.decide(asked, { ...decide, earlier });
      observed.obey(decision);
      await observed.handOver();
      return decision.edited ?? call.arguments;
    });
  }

  #begin(call: ApprovalCall, request?: McpRequest, entry?: JournalEntry): ObservedCall {
    return new ObservedCall(call, this.#options.observers, { cell: this.#cell, request, entry });
  }

  /** Runs a tool. */
  async callTool(call: ToolCall, options: CallToolOptions): Promise<ToolResult> {
    const { pool, events, changes } = this.#options;
    const { entry, ...asked } = call;
    const { serverName, toolName } = call;
    const { signal, onProgress } = options;
    const callId = entry?.id ?? crypto.randomUUID();
    const send = async (args: ExactObject, observed: ObservedCall): Promise<ToolResult> => {
      const { tool } = observed;
      using _running = events.track(serverName, callId);
      const result = await pool.callTool(serverName, toolName, args, {
        signal,
        timeoutMs: this.#timeoutMs(options),
        onProgress: this.#progress({ callId, serverName, toolName }, onProgress),
      }).catch((error: unknown) => {
        throw tool === undefined ? this.#withoutTool(serverName, toolName, error) : error;
      });
      observed.result = result;
      await changes.settled(serverName); // the next line may import what this call has brought
      await this.#noteOwnFile(serverName, result);
      const missing = tool === undefined && result.isError === true
        ? this.#noSuchTool(serverName, toolName)
        : undefined;
      if (missing === undefined) return result;
      const block = { type: "text", text: `[ipybox] ${missing}` };
      return { ...result, content: [...result.content, block] };
    };
    return await this.#make({
      call: { kind: "tool", callId, ...asked, askedAt: entry?.askedAt },
      method: "tools/call",
      target: toolName,
      signal,
      needsApproval: true,
      entry,
      findTool: () => this.#findTool(serverName, toolName, signal),
      check: (edited, tool) => tool && checkArguments(tool.inputSchema, edited),
      send,
      hasFailed: ({ isError }) => isError === true,
    });
  }

  /**
   * Asks a server for a resource, a prompt, a completion, or a list of what it has. Lists, which send
   * nothing of the caller's, are only refused where the policy denies.
   */
  async catalog(
    call: CatalogCall,
    options: CallToolOptions,
  ): Promise<Readonly<Record<string, unknown>>> {
    const { serverName, method, params, source } = call;
    const { signal } = options;
    checkCatalogParams(method, params); // nobody is asked about what cannot be sent
    const args = sealObject(toExact(params));
    return await this.#make({
      call: {
        kind: "resource",
        callId: crypto.randomUUID(),
        serverName,
        toolName: method,
        arguments: args,
        source,
      },
      method,
      target: method === "prompts/get" ? String(params.name) : undefined,
      signal,
      needsApproval: !isListMethod(method),
      check: (edited) => problemOf(() => checkCatalogParams(method, edited)),
      send: (args) =>
        this.#options.pool.catalog(serverName, method, checkCatalogParams(method, args), {
          signal,
          timeoutMs: this.#timeoutMs(options),
        }),
    });
  }

  /** Says where a file is that code will look for in vain: once for each server. */
  async #noteOwnFile(serverName: string, result: ToolResult): Promise<void> {
    if (this.#noted.has(serverName)) return;
    const { pool } = this.#options;
    const path = await pool.ownFileIn(serverName, result);
    if (path === undefined) return;
    this.#noted.add(serverName);
    const file = quoted(path.slice(0, 100));
    if (this.#notes.length >= MAX_NOTES) return;
    this.#notes.push(
      `[ipybox] ${file} is in a folder of MCP server "${serverName}" that code cannot read. To get ` +
        "its files into the workspace, the user can register it with --cwd '${workspaceFolder}'",
    );
  }

  /** Explains the failure of a call of a tool that the server does not list. */
  #withoutTool(serverName: string, toolName: string, error: unknown): unknown {
    if (!(error instanceof ToolCallError)) return error;
    const { type, message, details } = error;
    if (type !== "invalid_arguments" && type !== "protocol_error") return error;
    const missing = this.#noSuchTool(serverName, toolName);
    if (missing === undefined) return error;
    return new ToolCallError(type, `${missing}. ${message}`, details, { cause: error });
  }

  /** Says that a tool is not listed; `undefined` where the server gives no list. */
  #noSuchTool(serverName: string, toolName: string): string | undefined {
    const names = this.#options.pool.knownNames(serverName);
    if (names.length === 0) return undefined;
    const near = nearestNames(toolName, names, 3).map(quoted).join(", ");
    const others = near === "" ? "" : `; the closest names are: ${near}`;
    return `MCP server "${serverName}" lists no tool ${quoted(toolName.slice(0, 100))}${others}`;
  }

  /** The server's description of the tool, for the approver. A server that has given none may be asked. */
  async #findTool(
    serverName: string,
    toolName: string,
    signal: AbortSignal | undefined,
  ): Promise<Tool | undefined> {
    const { pool, log } = this.#options;
    try {
      return await pool.findTool(serverName, toolName, signal);
    } catch (error) {
      if (!(error instanceof ToolCallError) || error.type !== "protocol_error") throw error;
      log.debug(`${serverName}: ${error.message}`);
      return undefined;
    }
  }

  /** Tells the caller and the observers. Without either, the server is not asked for it. */
  #progress(
    call: { callId: string; serverName: string; toolName: string },
    onProgress: CallToolOptions["onProgress"],
  ): CallToolOptions["onProgress"] {
    const { events } = this.#options;
    if (onProgress === undefined && !events.watched) return undefined;
    return ({ progress, total, message }: ToolProgress) => {
      events.tell({ type: "progress", ...call, progress, total, message });
      onProgress?.({ progress, total, message });
    };
  }

  /** The shorter one of the call's own time limit and that of all calls. */
  #timeoutMs({ timeoutMs = Infinity }: CallToolOptions): number | undefined {
    const shortest = Math.min(timeoutMs, this.#options.callTimeoutMs ?? Infinity);
    return shortest === Infinity ? undefined : shortest;
  }
}

/** What the approver sees in addition to the call. */
function descriptionOf(params: ServerParams, tool: Tool | undefined): Partial<ApprovalCall> {
  return {
    annotations: tool && annotationsOf(tool),
    title: titleOf(tool?.title ?? tool?.annotations?.title),
    description: shortened(tool?.description, MAX_DESCRIPTION),
    server: { launch: launchText(params) },
  };
}

/** Those of the protocol: a server's own have names of any length. */
const ANNOTATIONS: readonly string[] = [
  "title",
  "readOnlyHint",
  "destructiveHint",
  "idempotentHint",
  "openWorldHint",
];

function annotationsOf({ annotations }: Tool): Tool["annotations"] {
  if (annotations === undefined) return undefined;
  return Object.fromEntries(
    Object.entries(annotations).filter(([name]) => ANNOTATIONS.includes(name))
      .map(([name, value]) => [name, typeof value === "string" ? titleOf(value) : value]),
  );
}

function titleOf(text: string | undefined): string | undefined {
  return shortened(text, MAX_TITLE);
}

function shortened(text: string | undefined, max: number): string | undefined {
  if (text === undefined || text.length <= max) return text;
  return `${text.slice(0, max)}… (${text.length} characters)`;
}

function problemOf(check: () => unknown): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof TypeError) return error.message;
    throw error;
  }
}

/** What was approved is for the tool as its server described it. */
function requireSameTool(serverName: string, shown: Tool, current: Tool | undefined): void {
  if (current === shown || current !== undefined && toolHash(current) === toolHash(shown)) return;
  const name = quoted(shown.name.slice(0, 100));
  const message = `MCP server "${serverName}" changed its tool ${name} before the call was sent`;
  throw new ToolCallError("cancelled", message);
}

/** What was approved is for the server that it was approved for. */
function requireSameServer(
  serverName: string,
  shown: ServerParams,
  current: ServerParams | undefined,
): void {
  if (current === shown || JSON.stringify(current) === JSON.stringify(shown)) return;
  const message = `MCP server "${serverName}" was registered again before the call was sent`;
  throw new ToolCallError("cancelled", message);
}

/** By the parameters, which stay the same from call to call. */
const hashes = new WeakMap<ServerParams, string>();

function serverHash(params: ServerParams): string {
  const hash = hashes.get(params) ?? sha256(launchText(params));
  hashes.set(params, hash);
  return hash;
}
