import type { Logger } from "../base/log.ts";
import { messageOf } from "../base/message_of.ts";
import { abortable } from "../base/signals.ts";
import type { CheckerProcess } from "../kernel/gateway_connection.ts";
import type { KernelHost } from "../kernel/host.ts";
import { type ChangedFile, LanguageServer } from "./language_server.ts";
import { type Inspection, MAX_CODE, parseInspection } from "./inspection.ts";
import { type CodeProblem, type Findings, judge, undefinedNames } from "./problems.ts";
import { CheckReport, reportOfSyntax, UNCHECKED } from "./report.ts";
import type { StubTree } from "./stub_tree.ts";

/** Options of {@linkcode CodeChecker}. */
interface CheckerOptions {
  readonly kernel: Pick<KernelHost, "inspect" | "openChecker">;
  /** The folder of generated modules. */
  readonly mcptools: string;
  readonly log: Logger;
}

/** How long a check may delay a cell. */
const MAX_DELAY_MS = 300;
/** How much of a session is kept: the checker does not know the names of older cells. */
const MAX_CELLS = 100;
const MAX_HISTORY = 200_000;
/** After this many exits, the checker is not restarted. */
const MAX_ENDS = 3;

/** A running type checker, with the stubs it reads. */
interface Session {
  readonly server: LanguageServer;
  readonly stubs: StubTree;
  /** Makes changes in the stubs' folder visible to the checker; returns the paths as it sees them. */
  readonly publish: (files: ChangedFile[]) => Promise<ChangedFile[]>;
}

/** A cell that was checked, and runs or is about to run. */
interface Pending {
  inspection?: Inspection;
  /** Whether the checker knows it. */
  isAppended: boolean;
}

/** Checks cells before they run: the kernel finds undefined names, a type checker wrong calls of tools. */
export class CodeChecker implements Disposable {
  readonly #options: CheckerOptions;
  /** The checker's record of each cell so far. */
  readonly #history: string[] = [];
  #session: Promise<Session> | undefined;
  /** The session, once the checker knows the history. */
  #live: Session | undefined;
  #pending: Pending | undefined;
  #usesTools = false;
  #ends = 0;
  #isClosed = false;

  constructor(options: CheckerOptions) {
    this.#options = options;
  }

  /** Starts the type checker in advance. */
  warm(): void {
    this.#usesTools = true;
    this.#open()?.catch(() => {}); // the next check reports it
  }

  /** Checks code that is about to run. Rejects only with the signal's reason. */
  async check(
    code: string,
    signal: AbortSignal,
    limitMs: number = MAX_DELAY_MS,
  ): Promise<CheckReport> {
    const pending = this.#pending = { isAppended: false };
    if (code.length > MAX_CODE) return this.#unchecked("it is too long");
    const timeout = AbortSignal.timeout(limitMs);
    try {
      // An answer of the kernel that arrives late, but before the code runs, is still recorded.
      return await abortable(this.#check(code, pending, { signal, timeout }), timeout);
    } catch (error) {
      signal.throwIfAborted();
      return this.#unchecked(timeout.aborted ? "it took too long" : messageOf(error));
    }
  }

  /** Records how the code that was checked last ended, if it ran. */
  ended(how: "well" | "failed" | "blocked"): void {
    const pending = this.#pending;
    this.#pending = undefined;
    if (pending === undefined) return;
    const { inspection, isAppended } = pending;
    if (how === "blocked") {
      if (isAppended) this.#edit((server) => server.remove(server.size - 1));
    } else if (inspection === undefined || inspection.dynamic) {
      this.reset(); // it is unknown which names are set now
    } else if (how === "well") {
      this.#history.push(inspection.text);
      if (!isAppended) this.#edit((server) => server.append(inspection.text));
    } else {
      const text = afterFailure(inspection);
      this.#history.push(text);
      this.#edit((server) => {
        if (isAppended) server.remove(server.size - 1);
        server.append(text);
      });
    }
    this.#forgetOldCells();
  }

  /** Forgets all cells. */
  reset(): void {
    this.#pending = undefined;
    this.#history.length = 0;
    this.#edit((server) => {
      while (server.size > 0) server.remove(server.size - 1);
    });
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#session?.then(({ server }) => server[Symbol.dispose](), () => {});
  }

  async #check(
    code: string,
    pending: Pending,
    { signal, timeout }: { readonly signal: AbortSignal; readonly timeout: AbortSignal },
  ): Promise<CheckReport> {
    const found = parseInspection(await this.#options.kernel.inspect(code, signal));
    if (found === undefined) return this.#unchecked("the kernel could not analyze it");
    if ("syntax" in found) return reportOfSyntax(found.syntax);
    const { inspection } = found;
    pending.inspection = inspection;
    const names = undefinedNames(inspection);
    const tools = inspection.tools.map(([server, module]) => ({ server, module }));
    this.#usesTools ||= tools.length > 0;
    const findings = this.#usesTools ? await this.#findings(inspection, pending, timeout) : NOTHING;
    if (findings === undefined) this.#unchecked("the type checker ty is not available");
    const { certain = [], possible = [] } = findings ?? {};
    return new CheckReport({
      problems: inOrder([...names.certain, ...certain]),
      notes: inOrder([...names.possible, ...possible]),
      tools,
      isComplete: findings !== undefined,
      text: inspection.text,
      file: inspection.file,
    });
  }

  async #findings(
    inspection: Inspection,
    pending: Pending,
    signal: AbortSignal,
  ): Promise<Findings | undefined> {
    const session = await this.#open();
    if (session === undefined) return undefined;
    const { server, stubs, publish } = session;
    const files = await stubs.update(new Set(inspection.tools.map(([name]) => name)));
    server.filesChanged(await publish(files));
    // The code may have started while the stubs were written.
    if (this.#pending !== pending) return undefined;
    server.append(inspection.text);
    pending.isAppended = true;
    return await judge(await server.diagnose(), inspection, { names: stubs, signal });
  }

  /** The type checker, restarted if it has ended; `undefined` if there is none. */
  #open(): Promise<Session> | undefined {
    if (this.#session !== undefined || this.#ends >= MAX_ENDS) return this.#session;
    const process = this.#options.kernel.openChecker();
    if (process === undefined) {
      this.#ends = MAX_ENDS;
      this.#options.log.warn(
        "Tool calls are not checked before code runs: the type checker ty is not installed. " +
          "Run `ipybox setup`",
      );
      return undefined;
    }
    const session = this.#session = this.#start(process);
    session.then(({ server }) => {
      if (this.#isClosed) server[Symbol.dispose]();
      server.ended.addEventListener("abort", () => this.#lost(session, server.ended.reason));
    }, (error) => this.#lost(session, error));
    return session;
  }

  async #start({ stream, stubs: folder, remote }: CheckerProcess): Promise<Session> {
    const { StubTree } = await import("./stub_tree.ts"); // loads the generator, which few sessions need
    const stubs = new StubTree(folder, this.#options.mcptools);
    await stubs.begin();
    const publish = async (files: ChangedFile[]) => {
      if (remote === undefined || files.length === 0) return files;
      await remote.publish();
      return files.map(({ path, change }) => (
        { path: remote.folder + path.slice(folder.length), change }
      ));
    };
    await remote?.publish();
    const server = await LanguageServer.start(stream, remote?.folder ?? folder);
    for (const text of this.#history) server.append(text);
    return this.#live = { server, stubs, publish };
  }

  #lost(session: Promise<Session>, reason: unknown): void {
    if (this.#session !== session || this.#isClosed) return;
    this.#session = this.#live = undefined;
    this.#ends++;
    if (this.#pending !== undefined) this.#pending.isAppended = false;
    this.#options.log.debug(`The type checker ended: ${messageOf(reason)}`);
  }

  #edit(change: (server: LanguageServer) => void): void {
    if (this.#live !== undefined) change(this.#live.server);
  }

  #forgetOldCells(): void {
    const size = () => this.#history.reduce((sum, text) => sum + text.length, 0);
    while (this.#history.length > MAX_CELLS || size() > MAX_HISTORY) {
      this.#history.shift();
      this.#edit((server) => server.remove(0));
    }
  }

  #unchecked(why: string): CheckReport {
    this.#options.log.debug(`A cell was not checked before it ran: ${why}`);
    return UNCHECKED;
  }
}

const NOTHING: Findings = { certain: [], possible: [] };

function inOrder(problems: readonly CodeProblem[]): CodeProblem[] {
  return problems.toSorted((a, b) => a.line - b.line || a.column - b.column);
}

/** The form of a failed cell for later ones: each of its names may have any value. */
function afterFailure({ bound, imports }: Inspection): string {
  const unknown = bound.length === 0 ? [] : [`from _unknown import ${bound.join(", ")}`];
  return [...unknown, ...imports].join("\n") + "\n";
}
