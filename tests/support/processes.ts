/**
 * The processes whose command line has a text in it, zombies left out.
 *
 * @param text The text, such as the name of a folder that only they know.
 * @returns Their ids.
 */
export async function processesWith(text: string): Promise<number[]> {
  const found: number[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    // A zombie has no command line. Others end while they are looked at.
    const line = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
    if (line.includes(text)) found.push(Number(name));
  }
  return found;
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
