import type { AuditTarget } from "../approval/audit/trail.ts";
import { quoted } from "../approval/call_text.ts";
import type { ApprovalCall, CallSource } from "../approval/request.ts";
import { ToolCallError } from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { type ExactObject, sealObject, toExact } from "../json/exact.ts";
import { type CatalogMethod, checkCatalogParams, isListMethod } from "../mcp/catalog.ts";
import type { CallToolOptions, ToolProgress } from "../mcp/hooks.ts";
import type { ServerParams } from "../mcp/params.ts";
import type { ToolResult } from "../mcp/results.ts";
import type { Tool } from "../mcp/tools.ts";
import type { ToolChanges } from "../servers/changes.ts";
import type { ServerEvents } from "../servers/events.ts";
import { launchText } from "../servers/facets.ts";
import type { McpPool } from "../servers/pool.ts";
import type { ServerRegistry } from "../servers/registry.ts";
import type { Approvals } from "./approvals.ts";
import type { CallReporter } from "./reporter.ts";

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

/** What {@linkcode ApprovedCalls} are made with. */
interface ApprovedCallsOptions {
  /** The servers. */
  readonly registry: ServerRegistry;
  /** The connections to them. */
  readonly pool: McpPool;
  /** Decides on each call. */
  readonly approvals: Approvals;
  /** Told of each call. */
  readonly reporter: CallReporter;
  /** Told of progress, and of which calls are under way. */
  readonly events: ServerEvents;
  /** Follows what calls change in the list of tools. */
  readonly changes: ToolChanges;
  /** Takes what code should know. */
  readonly notes: Notes;
  /** How long a call may take once it is approved, in milliseconds. */
  readonly callTimeoutMs: number | undefined;
  /** Told of servers that do not describe their tools. */
  readonly log: Logger;
}

/** Makes calls, each in the same order: decided, noted, and only then sent to the server. */
export class ApprovedCalls {
  readonly #options: ApprovedCallsOptions;
  /** The servers of which it was said where their files are. */
  readonly #noted = new Set<string>();

  /** @param options Who decides, who is told, and where calls go. */
  constructor(options: ApprovedCallsOptions) {
    this.#options = options;
  }

  /** Runs a tool. */
  async callTool(call: ToolCall, options: CallToolOptions): Promise<ToolResult> {
    const { registry, pool, approvals, reporter, events, changes } = this.#options;
    const { serverName, toolName } = call;
    const { signal, onProgress } = options;
    const callId = crypto.randomUUID();
    const asked: ApprovalCall = { kind: "tool", callId, ...call };
    const request = { method: "tools/call", target: toolName, params: registry.get(serverName) };
    return await reporter.reportRequest(asked, request, async (notes) => {
      const { onDecision, onTarget, beforeSending } = notes;
      approvals.refuseDenied(asked, onDecision); // before a server is started for it
      const params = pool.requireRegistered(serverName);
      const tool = await this.#definition(serverName, toolName, signal);
      onTarget(targetHashes(params, tool));
      const args = await approvals.authorizeTool(asked, { params, tool }, { signal, onDecision });
      await beforeSending();
      this.#requireUnchanged(serverName, params);
      using _running = events.track(serverName, callId);
      const result = await pool.callTool(serverName, toolName, args, {
        signal,
        timeoutMs: this.#timeoutMs(options),
        onProgress: this.#progress({ callId, serverName, toolName }, onProgress),
      }).catch((error: unknown) => {
        throw tool === undefined ? this.#withoutTool(serverName, toolName, error) : error;
      });
      await changes.settled(serverName); // the next line may import what this call has brought
      await this.#noteOwnFile(serverName, result);
      const missing = tool === undefined && result.isError === true
        ? this.#noSuchTool(serverName, toolName)
        : undefined;
      if (missing === undefined) return result;
      const block = { type: "text", text: `[ipybox] ${missing}` };
      return { ...result, content: [...result.content, block] };
    }, ({ isError }) => isError === true);
  }

  /** Says where a file is that code will look for in vain: once for each server. */
  async #noteOwnFile(serverName: string, result: ToolResult): Promise<void> {
    if (this.#noted.has(serverName)) return;
    const { pool, notes } = this.#options;
    const path = await pool.ownFileIn(serverName, result);
    if (path === undefined) return;
    this.#noted.add(serverName);
    const file = quoted(path.slice(0, 100));
    notes.add(
      `[ipybox] ${file} lies in a folder of MCP server "${serverName}" that code cannot read. To have ` +
        "its files in the workspace, the user can register it with --cwd '${workspaceFolder}'",
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
    const others = near === "" ? "" : `; the nearest that it has: ${near}`;
    return `MCP server "${serverName}" lists no tool ${quoted(toolName.slice(0, 100))}${others}`;
  }

  /**
   * Asks a server for a resource, a prompt, a completion, or a list of what it has. Lists, which send
   * nothing of the caller's, are only refused where the policy denies.
   */
  async catalog(
    call: CatalogCall,
    options: CallToolOptions,
  ): Promise<Readonly<Record<string, unknown>>> {
    const { registry, pool, approvals, reporter } = this.#options;
    const { serverName, method, source } = call;
    const { signal } = options;
    const args = sealObject(toExact(call.params));
    const asked: ApprovalCall = {
      kind: "resource",
      callId: crypto.randomUUID(),
      serverName,
      toolName: method,
      arguments: args,
      source,
    };
    const target = method === "prompts/get" ? String(call.params.name) : undefined;
    const request = { method, target, params: registry.get(serverName) };
    return await reporter.reportRequest(asked, request, async (notes) => {
      const { onDecision, onTarget, beforeSending } = notes;
      approvals.refuseDenied(asked, onDecision);
      const params = pool.requireRegistered(serverName);
      onTarget(targetHashes(params));
      const approved = isListMethod(method)
        ? args
        : await approvals.authorizeCatalog(asked, { params, method }, { signal, onDecision });
      const checked = checkCatalogParams(method, approved); // an approver may have edited them
      if (!isListMethod(method)) await beforeSending();
      this.#requireUnchanged(serverName, params);
      const timeoutMs = this.#timeoutMs(options);
      return await pool.catalog(serverName, method, checked, { signal, timeoutMs });
    });
  }

  /** Has a shell command approved. Nothing is run. */
  approveShell(call: ApprovalCall, signal: AbortSignal | undefined): Promise<ExactObject> {
    const { approvals, reporter } = this.#options;
    return reporter.report(
      call,
      ({ onDecision }) => approvals.authorizeShell(call, { signal, onDecision }),
      () => "approved", // how the command ends is not told here
    );
  }

  /** What was approved is for the server that it was approved for. */
  #requireUnchanged(serverName: string, params: ServerParams): void {
    const current = this.#options.registry.get(serverName);
    if (current === params || JSON.stringify(current) === JSON.stringify(params)) return;
    const message = `MCP server "${serverName}" was registered anew before it could be called`;
    throw new ToolCallError("cancelled", message);
  }

  /** What the server says of the tool, for whoever decides. A server that does not say may be asked. */
  async #definition(
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

  /** Tells whoever called and whoever watches. Without either, the server is not asked for it. */
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

/** By the objects that were hashed, which stay the same from call to call. */
const known = new WeakMap<object, string>();

/**
 * Tells by which it can be seen later whether a call went to the same server and the same tool as
 * another one.
 */
function targetHashes(params: ServerParams, tool?: Tool): AuditTarget {
  return {
    serverHash: hashOf(params, () => launchText(params)),
    toolHash: tool && hashOf(tool, () => canonicalJson(toExact(tool))),
  };
}

function hashOf(object: object, text: () => string): string {
  const hash = known.get(object) ?? sha256(text());
  known.set(object, hash);
  return hash;
}

/** Longer names are compared by their beginnings, and further ones not at all: servers choose both. */
const MAX_LENGTH = 100;
const MAX_NAMES = 2000;
/** Below that, names have nothing to do with each other. */
const LEAST = 0.3;

/** Finds the names that look most like another one. */
function nearestNames(name: string, names: readonly string[], count: number): string[] {
  const wanted = pairsOf(name);
  return names.slice(0, MAX_NAMES)
    .map((candidate) => ({ candidate, likeness: likeness(wanted, pairsOf(candidate)) }))
    .filter(({ likeness }) => likeness >= LEAST)
    .sort((a, b) => b.likeness - a.likeness)
    .slice(0, count)
    .map(({ candidate }) => candidate);
}

/** The pairs of neighbouring letters and digits; those that begin and end a name count, too. */
function pairsOf(name: string): ReadonlySet<string> {
  const plain = `^${name.slice(0, MAX_LENGTH).toLowerCase().replaceAll(/[^a-z0-9]/g, "")}$`;
  return new Set(Array.from({ length: plain.length - 1 }, (_, at) => plain.slice(at, at + 2)));
}

/** How much two sets have in common, from 0 to 1 (Dice's coefficient). */
function likeness(one: ReadonlySet<string>, other: ReadonlySet<string>): number {
  return 2 * one.intersection(other).size / (one.size + other.size);
}

/** How many notes are kept for a reader: servers cause them. */
const MAX_NOTES = 20;

/** What code should know of the servers that it calls, until somebody takes it. */
export class Notes {
  #waiting: string[] = [];

  /** Adds a note of one line, for whoever writes the code. */
  add(text: string): void {
    if (this.#waiting.length < MAX_NOTES) this.#waiting.push(text);
  }

  /** Takes what there is, in its order. */
  take(): string[] {
    const notes = this.#waiting;
    this.#waiting = [];
    return notes;
  }
}
