/**
 * The command line of ipybox.
 *
 * ```sh
 * deno run -A jsr:@ipybox/ipybox/cli demo
 * ```
 *
 * It needs all permissions, because it starts the MCP servers that its user names; what the executed
 * Python code can reach is bounded by the OS sandbox, not by Deno's permissions.
 *
 * @module
 */
import { runCommandLine } from "./src/commands/mod.ts";
import { Terminal } from "./src/commands/terminal/terminal.ts";
import config from "./deno.json" with { type: "json" };

/**
 * Runs the command line on the process's own streams.
 *
 * @param args The arguments after the program's name.
 * @returns The exit code.
 *
 * @example
 * ```ts ignore
 * import { main } from "@ipybox/ipybox/cli";
 *
 * Deno.exit(await main(["doctor"]));
 * ```
 */
export async function main(args: readonly string[]): Promise<number> {
  if (!Deno.env.get("HOME")) await findHome();
  using terminal = new Terminal();
  return await runCommandLine(args, terminal, config.version);
}

/** Services and containers may have no `HOME`, but the system knows where it is. */
async function findHome(): Promise<void> {
  const { userInfo } = await import("node:os");
  try {
    Deno.env.set("HOME", userInfo().homedir);
  } catch {
    // The system does not know this user: whatever needs a home reports that.
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
