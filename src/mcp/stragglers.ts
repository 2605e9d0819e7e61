import { mayRead } from "../process/permission.ts";

/** Marks what a server starts, also what leaves its process group. */
export const STRAGGLER_VARIABLE = "IPYBOX_MCP_SERVER";

/** A server that starts processes faster than they are found must not hold up the end. */
const LONGEST_MS = 2000;

/** How long a process that was killed is given to end before it is looked for again. */
const ROUND_MS = 5;

/**
 * Kills what a server has started and left behind, also in process groups of its own, and waits for
 * its end: until then it may still write. It is known by a variable of the environment, which every
 * process inherits unless it takes care not to.
 *
 * Only where `/proc` is, and as far as Deno's permissions go: a server in the sandbox leaves nothing
 * behind in any case.
 */
export async function killStragglers(mark: string): Promise<void> {
  if (Deno.build.os !== "linux") return;
  for (const start = performance.now(); performance.now() - start < LONGEST_MS;) {
    const pids = await findMarked(`${STRAGGLER_VARIABLE}=${mark}`);
    if (pids.length === 0) return;
    for (const pid of pids) kill(pid);
    await new Promise((resolve) => setTimeout(resolve, ROUND_MS));
  }
}

async function findMarked(mark: string): Promise<number[]> {
  if (!mayRead("/proc")) return [];
  const found: number[] = [];
  try {
    for await (const { name } of Deno.readDir("/proc")) {
      if (/^\d+$/.test(name) && await hasMark(name, mark)) found.push(Number(name));
    }
  } catch {
    return []; // not allowed to look
  }
  return found;
}

async function hasMark(pid: string, mark: string): Promise<boolean> {
  try {
    const environment = await Deno.readTextFile(`/proc/${pid}/environ`);
    return environment.split("\0").includes(mark); // a zombie has none
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    return false; // it has ended, or is another user's
  }
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // it has ended, or Deno's permissions do not allow it
  }
}
