import type { ApprovalChannel } from "../approval/channel.ts";
import type { ApprovalRequest, ApprovalResponse } from "../approval/request.ts";
import { outcomeOf, type PageDecision, type RequestView, viewOf } from "./page_wire.ts";

/** What became of a decision: it counted, another one was first, or nobody knows the request. */
export type DecisionFate = "counted" | "late" | "unknown";

interface OpenRequest {
  readonly request: ApprovalRequest;
  readonly view: RequestView;
  /** Whether what was decided on pages counted. */
  readonly answers: Promise<boolean>[];
}

/** How much of what was decided is kept. The audit log has all of it. */
const MAX_SETTLED = 500;
const MAX_SETTLED_CHARACTERS = 8 * 2 ** 20;

/** The requests of a channel as pages see them: those that wait, and those that were decided. */
export class RequestBoard implements Disposable {
  readonly #open = new Map<string, OpenRequest>();
  /** Messages as JSON, the oldest first. */
  readonly #settled: string[] = [];
  readonly #watchers = new Set<(message: string) => void>();
  readonly #watch: Disposable;
  #settledCharacters = 0;
  #dropped = 0;

  /** @param channel Whose requests are shown. */
  constructor(channel: ApprovalChannel) {
    this.#watch = channel.watch((request) => this.#add(request));
  }

  /** All that is known, as one JSON message. */
  snapshot(): string {
    const pending = [...this.#open.values()].map(({ view }) => JSON.stringify(view));
    return `{"type":"board","pending":[${pending.join(",")}],` +
      `"settled":[${this.#settled.join(",")}],"dropped":${this.#dropped}}`;
  }

  /** Calls back with each change as a JSON message, until disposed. */
  onMessage(callback: (message: string) => void): Disposable {
    this.#watchers.add(callback);
    return { [Symbol.dispose]: () => void this.#watchers.delete(callback) };
  }

  /** Decides a request. */
  async decide(id: string, decision: PageDecision): Promise<DecisionFate> {
    const open = this.#open.get(id);
    if (open === undefined) return "unknown";
    const counted = answer(open.request, decision);
    open.answers.push(counted);
    return await counted ? "counted" : "late";
  }

  [Symbol.dispose](): void {
    this.#watch[Symbol.dispose]();
  }

  #add(request: ApprovalRequest): void {
    const open: OpenRequest = { request, view: viewOf(request), answers: [] };
    this.#open.set(request.id, open);
    request.response.then((response) => this.#settle(open, response));
    this.#tell(JSON.stringify({ type: "asked", request: open.view }));
  }

  async #settle(open: OpenRequest, response: ApprovalResponse): Promise<void> {
    const { request, view } = open;
    const outcome = outcomeOf(request, response, await decidedByPage(open));
    this.#open.delete(request.id);
    const entry = JSON.stringify({ request: view, outcome });
    this.#settled.push(entry);
    this.#settledCharacters += entry.length;
    while (
      this.#settled.length > MAX_SETTLED || this.#settledCharacters > MAX_SETTLED_CHARACTERS
    ) {
      this.#settledCharacters -= this.#settled.shift()?.length ?? 0;
      this.#dropped++;
    }
    this.#tell(JSON.stringify({ type: "settled", outcome }));
  }

  #tell(message: string): void {
    for (const watcher of this.#watchers) watcher(message);
  }
}

async function decidedByPage({ answers }: OpenRequest): Promise<boolean> {
  for (const counted of answers) {
    if (await counted.catch(() => false)) return true; // whoever decided was told of the error
  }
  return false;
}

async function answer(request: ApprovalRequest, decision: PageDecision): Promise<boolean> {
  const { remember } = decision;
  switch (decision.decision) {
    case "allow":
      return await request.accept({ arguments: decision.arguments, remember });
    case "deny":
      return await request.reject(decision.reason || undefined, { remember });
  }
}
