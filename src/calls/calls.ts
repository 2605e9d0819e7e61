import { quoted, shortened } from "../approval/call_text.ts";
import type { ApprovalGate, DecideOptions, GateDecision } from "../approval/gate.ts";
import {
  type CallObserver,
  type CallTarget,
  Cell,
  ObservedCall,
} from "../approval/observed_call.ts";
import type { ApprovalCall, CallSource } from "../approval/request.ts";
import { ToolCallError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { nearestNames } from "../base/nearest.ts";
import type { McpRequest } from "../base/telemetry.ts";
import type { ServersOptions } from "../executor/options.ts";
import { sha256 } from "../json/digest.ts";
import { type ExactObject, sealObject, toExact } from "../json/exact.ts";
import { type CatalogMethod, checkCatalogParams, isListMethod } from "../mcp/catalog.ts";
import type { SendToolOptions } from "../mcp/connection.ts";
import type { CallToolOptions, ToolProgress } from "../mcp/hooks.ts";
import type { ServerParams } from "../mcp/params.ts";
import type { ToolResult } from "../mcp/results.ts";
import { parametersOf, type Tool, toolHash } from "../mcp/tools.ts";
import type { ToolChanges } from "../servers/changes.ts";
import type { ServerEvents } from "../servers/events.ts";
import { launchText, serverFingerprint, toolFingerprint } from "../servers/fingerprint.ts";
import type { McpPool } from "../servers/pool.ts";
import { sameParams, type ServerRegistry } from "../servers/registry.ts";

/** A tool call with sealed arguments. */
export interface ToolCall {
  /** The registered server. */
  readonly serverName: string;
  /** The tool's name on the wire. */
  readonly toolName: string;
  /** The arguments, which are sent unchanged. */
  readonly arguments: ExactObject;
  /** The calling line, as the code reports it; not to be trusted. */
  readonly source?: CallSource;
}

/** A journal's entry for a running call. It follows the call's steps, and records them. */
export interface JournalEntry extends CallObserver {
  /** The call's id, which was made in the kernel. */
  readonly id: string;
  /** When the call was first requested, if it has been repeated. */
  readonly askedAt: Date | undefined;
  /** Throws if the call may have been sent before. */
  requireUnsent(): void;
  /**
   * A person's decision from before the call could be sent. A decision on another target does not
   * count.
   */
  decisionFor(target: CallTarget | undefined): GateDecision | undefined;
}

/** A tool call that a durable session may make again. */
export interface RecordedCall extends ToolCall {
  /** The call's entry in the journal of the session. */
  readonly entry?: JournalEntry;
}

/** A request for a resource, a prompt, a completion or a list. */
export interface CatalogCall {
  /** The registered server. */
  readonly serverName: string;
  /** The protocol's method. */
  readonly method: CatalogMethod;
  /** The method's parameters. */
  readonly params: Readonly<Record<string, unknown>>;
  /** The requesting line, as the code reports it; not to be trusted. */
  readonly source?: CallSource;
}

/** Options of {@linkcode Calls}. */
interface CallsOptions extends ServersOptions {
  readonly registry: ServerRegistry;
  /** The connections to the servers. */
  readonly pool: McpPool;
  /** Decides on each call. */
  readonly gate: ApprovalGate;
  /** Informed of each step of each call, in this order. */
  readonly observers: readonly CallObserver[];
  /** Receives progress, and tracks running calls. */
  readonly events: ServerEvents;
  /** Follows changes of tool lists. */
  readonly changes: ToolChanges;
  /** Reports servers that do not describe their tools. */
  readonly log: Logger;
}

/** Options of {@linkcode Calls.approve}. */
interface ApproveOptions extends Pick<DecideOptions, "signal" | "check"> {
  /** The call for the audit log, if its arguments may be secret. */
  readonly noted?: ApprovalCall;
  /** The call's entry in the journal of a durable session. */
  readonly entry?: JournalEntry;
}

/** A request for a tool, a resource or a list. */
interface ServerRequest<T> {
  readonly call: ApprovalCall;
  readonly method: string;
  /** The name of the tool or prompt, if the method takes one. */
  readonly target: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** Whether approval is needed. Lists send no data of the caller's; only a denial stops them. */
  readonly needsApproval: boolean;
  /** The call's entry in the journal of a durable session. */
  readonly entry?: JournalEntry;
  /** Gets the server's description of the tool, for the approver. */
  readonly findTool?: () => Promise<Tool | undefined>;
  /** Returns the problem with edited arguments. Without it, only the server checks them. */
  readonly check?: (edited: ExactObject) => string | undefined;
  /** Sends the request, unless `compare` throws for the tool's current definition. */
  readonly send: (
    args: ExactObject,
    observed: ObservedCall,
    compare: SendToolOptions["compare"],
  ) => Promise<T>;
  /** Whether a result reports a failure. */
  readonly hasFailed?: (result: T) => boolean;
}

/** Longer than anybody reads in a dialog, in characters. */
const MAX_DESCRIPTION = 20_000;
const MAX_TITLE = 200;
/** The limit on notes that nobody has read yet: servers cause them. */
const MAX_NOTES = 20;

/** Makes calls. Each is decided on and audited before it is sent, and sent exactly as it was shown. */
export class Calls {
  readonly #options: CallsOptions;
  /** The servers with a note on their files already. */
  readonly #noted = new Set<string>();
  #notes: string[] = [];
  #cell: Cell | undefined;

  constructor(options: CallsOptions) {
    this.#options = options;
  }

  /** Begins an execution. The active span is the execution's. */
  enterCell(code: string, names: readonly string[] = []): Disposable {
    const cell = new Cell(code, names);
    this.#cell = cell;
    const parts = new DisposableStack();
    parts.use(this.#options.gate.consents.enterCell());
    parts.use(cell);
    return parts;
  }

  /** Returns a line of the executing code. */
  sourceAt(line: number): CallSource | undefined {
    return this.#cell?.sourceAt(line);
  }

  /** Takes the notes on called servers that the code's author should read, one line each. */
  takeNotes(): string[] {
    const notes = this.#notes;
    this.#notes = [];
    return notes;
  }

  /** The steps of every request to a server, in order. */
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
      // Once: nobody is asked about a call that an earlier host may have sent.
      entry?.requireUnsent();

      // Judge: a call that the policy denies must not start a server.
      const denial = gate.judge(call);
      if (denial !== undefined) observed.obey(denial);

      // Describe.
      const params = pool.requireRegistered(serverName);
      const tool = await findTool?.();
      observed.tool = tool;
      observed.target = { serverHash: serverHash(params), toolHash: tool && toolHash(tool) };

      let args = call.arguments;
      if (needsApproval) {
        // Decide: by the policy, a remembered decision, or a person.
        const decision = await gate.decide({ ...call, ...descriptionOf(params, tool) }, {
          signal,
          fingerprint: () => [
            ...serverFingerprint(params),
            ...(findTool === undefined ? [] : toolFingerprint(tool)),
          ],
          check,
          earlier: entry?.decisionFor(observed.target),
        });
        observed.obey(decision);
        args = decision.edited ?? args;

        // Note.
        await observed.send();
      }

      // Compare the call's target with the one that was shown, and send. Its tool is compared each time that
      // it is sent: it may wait for its turn, or for a page that a person must open first.
      const compareServer = () => requireSameServer(serverName, params, registry.get(serverName));
      compareServer();
      const compare = tool && ((current: Tool | undefined) => {
        compareServer();
        requireSameTool(serverName, tool, current);
      });
      return await request.send(args, observed, compare);
    }, (result) => request.hasFailed?.(result) === true ? "tool_error" : "ok"); // End.
  }

  /** Asks for approval of something that the caller does itself, such as running a shell command. */
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

  async callTool(call: RecordedCall, options: CallToolOptions = {}): Promise<ToolResult> {
    const { pool, events, changes } = this.#options;
    const { entry, ...asked } = call;
    const { serverName, toolName } = call;
    const { signal, onProgress } = options;
    const callId = entry?.id ?? crypto.randomUUID();
    const send = async (
      args: ExactObject,
      observed: ObservedCall,
      compare: SendToolOptions["compare"],
    ): Promise<ToolResult> => {
      const { tool } = observed;
      using _running = events.track(serverName, callId);
      const result = await pool.callTool(serverName, toolName, args, {
        signal,
        timeoutMs: this.#timeoutMs(options),
        onProgress: this.#progress({ callId, serverName, toolName }, onProgress),
        compare,
      }).catch((error: unknown) => {
        throw tool === undefined ? this.#withoutTool(serverName, toolName, error) : error;
      });
      observed.result = result;
      await changes.settled(serverName); // the next line may import a tool that this call added
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
      send,
      hasFailed: ({ isError }) => isError === true,
    });
  }

  /** Asks a server for a resource, a prompt, a completion or a list, which only a policy can refuse. */
  async catalog(
    call: CatalogCall,
    options: CallToolOptions,
  ): Promise<Readonly<Record<string, unknown>>> {
    const { serverName, method, params, source } = call;
    const { signal } = options;
    checkCatalogParams(method, params); // before anybody is asked
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

  /** Notes the location of a file that code cannot read, once for each server. */
  async #noteOwnFile(serverName: string, result: ToolResult): Promise<void> {
    if (this.#noted.has(serverName)) return;
    const { pool } = this.#options;
    const path = await pool.ownFileIn(serverName, result);
    if (path === undefined) return;
    this.#noted.add(serverName);
    const file = quoted(path.slice(0, 100));
    if (this.#notes.length >= MAX_NOTES) return;
    this.#notes.push(
      `[ipybox] ${file} is in a folder of MCP server "${serverName}" that code cannot read, and ` +
        "that is removed with it. To keep its files, the user can register it with a folder of the workspace, " +
        "such as --output-dir '${workspaceFolder}/output'",
    );
  }

  /** Explains the failure of a call if the server does not list its tool. */
  #withoutTool(serverName: string, toolName: string, error: unknown): unknown {
    if (!(error instanceof ToolCallError)) return error;
    const { type, message, details } = error;
    if (type !== "invalid_arguments" && type !== "protocol_error") return error;
    const missing = this.#noSuchTool(serverName, toolName);
    if (missing === undefined) return error;
    return new ToolCallError(type, `${missing}. ${message}`, details, { cause: error });
  }

  /** Explains that a tool is not listed; `undefined` if the server gives no list. */
  #noSuchTool(serverName: string, toolName: string): string | undefined {
    const names = this.#options.pool.knownNames(serverName);
    if (names.length === 0) return undefined;
    const near = nearestNames(toolName, names, 3).map(quoted).join(", ");
    const others = near === "" ? "" : `; the closest names are: ${near}`;
    return `MCP server "${serverName}" lists no tool ${quoted(toolName.slice(0, 100))}${others}`;
  }

  /** The server's description of the tool, for the approver; `undefined` if it gives none. */
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

  /** Reports progress to the caller and the observers. Without either, none is requested. */
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

  /** The shorter of the call's own time limit and the general one. */
  #timeoutMs({ timeoutMs = Infinity }: CallToolOptions): number | undefined {
    const shortest = Math.min(timeoutMs, this.#options.callTimeoutMs ?? Infinity);
    return shortest === Infinity ? undefined : shortest;
  }
}

/** The approver's information besides the call. */
function descriptionOf(params: ServerParams, tool: Tool | undefined): Partial<ApprovalCall> {
  return {
    annotations: tool && annotationsOf(tool),
    parameters: tool && takenBy(tool),
    title: titleOf(tool?.title ?? tool?.annotations?.title),
    description: tool?.description && shortened(tool.description, MAX_DESCRIPTION),
    server: { launch: launchText(params) },
  };
}

/** Cached by definition: a server may declare thousands. */
const parameters = new WeakMap<Tool, ReadonlySet<string> | undefined>();

function takenBy(tool: Tool): ReadonlySet<string> | undefined {
  return parameters.getOrInsertComputed(
    tool,
    ({ inputSchema }) => parametersOf(Object.entries(inputSchema)),
  );
}

/** The protocol's annotations: a server can add others with names of any length. */
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
  return text && shortened(text, MAX_TITLE);
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

/** Throws if a tool changed: the approval was for the tool as its server described it. */
function requireSameTool(serverName: string, shown: Tool, current: Tool | undefined): void {
  if (current === shown || current !== undefined && toolHash(current) === toolHash(shown)) return;
  const name = quoted(shown.name.slice(0, 100));
  const message = `MCP server "${serverName}" changed its tool ${name} before the call was sent`;
  throw new ToolCallError("cancelled", message);
}

/** Throws if a server changed: the approval was for the server as it was registered. */
function requireSameServer(
  serverName: string,
  shown: ServerParams,
  current: ServerParams | undefined,
): void {
  if (sameParams(shown, current)) return;
  const message = `MCP server "${serverName}" was registered again before the call was sent`;
  throw new ToolCallError("cancelled", message);
}

/** Cached by the parameters' object, which is the same for all calls. */
const hashes = new WeakMap<ServerParams, string>();

function serverHash(params: ServerParams): string {
  return hashes.getOrInsertComputed(params, () => sha256(launchText(params)));
}
