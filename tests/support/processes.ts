/**
 * The processes whose command line has a text in it, zombies left out.
 *
 * @param text The text, such as the name of a folder that only they know.
 * @returns Their ids.
 */
export function processesWith(text: string): Promise<number[]> {
  const found: number[] = [];
  for (const { name } of Deno.readDirSync("/proc")) { // at once costs a third of one after the other
    if (/^\d+$/.test(name) && commandLine(name).includes(text)) found.push(Number(name));
  }
  return Promise.resolve(found);
}

/** A process's command line. A zombie has none, and others end while they are looked at. */
function commandLine(pid: string): string {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`);
  } catch {
    return "";
  }
}

/**
 * Waits until no process has a text in its command line.
 *
 * @param text The text.
 * @param timeoutMs The longest wait.
 * @throws {Error} There still are some.
 */
export async function untilNoneWith(text: string, timeoutMs: number = 60_000): Promise<void> {
  const end = Date.now() + timeoutMs;
  for (let left = await processesWith(text); left.length > 0; left = await processesWith(text)) {
    if (Date.now() > end) throw new Error(`Still running with ${text}: ${left.join(", ")}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
