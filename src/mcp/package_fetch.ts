import { basename } from "node:path";
import type { TimeBudget } from "../async/time_budget.ts";
import { mayRead } from "../process/permission.ts";

/** Programs that fetch a server where it is not there yet, and then start it as their child. */
const RUNNERS: ReadonlySet<string> = new Set(["npm", "npx", "uv", "uvx"]);

/** No process tells its parent about its children. */
const POLL_MS = 250;
/** A runner that has nothing to show for it after this long does not fetch any more. */
const LONGEST_FETCH_MS = 600_000;

/**
 * Leaves the time that a package runner takes to fetch a server out of the server's time to start.
 *
 * The server has started once the runner has a child. Where that cannot be seen (only Linux shows it,
 * and Deno only to programs with all permissions), all of the time counts.
 */
export class PackageFetch implements Disposable {
  readonly #pid: () => number | null;
  readonly #budget: TimeBudget;
  readonly #since: number = performance.now();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #disposed = false;
  #underWay = false;

  constructor(command: string, pid: () => number | null, budget: TimeBudget) {
    this.#pid = pid;
    this.#budget = budget;
    const isSeen = Deno.build.os === "linux" && mayRead("/proc");
    if (isSeen && RUNNERS.has(basename(command))) this.#look();
  }

  /** Whether the server is being fetched. */
  get underWay(): boolean {
    return this.#underWay;
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    clearTimeout(this.#timer);
  }

  async #look(): Promise<void> {
    const pid = this.#pid();
    const waits = performance.now() - this.#since < LONGEST_FETCH_MS;
    const fetches = waits && pid !== null && await isChildless(pid);
    if (this.#disposed) return;
    this.#underWay = fetches;
    this.#budget.setPending(fetches ? 1 : 0);
    if (waits) this.#timer = setTimeout(() => this.#look(), POLL_MS);
  }
}

/** Whether a process runs and has no child. */
async function isChildless(pid: number): Promise<boolean> {
  const tasks = `/proc/${pid}/task`;
  try {
    for await (const { name } of Deno.readDir(tasks)) {
      if (await Deno.readTextFile(`${tasks}/${name}/children`) !== "") return false;
    }
    return true;
  } catch {
    return false; // it has ended, or one may not look
  }
}
