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
import { userInfo } from "node:os";
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
  setHome();
  using terminal = new Terminal();
  return await runCommandLine(args, terminal, config.version);
}

/** Sets `HOME` to the user's home directory, if a service or a container started this without it. */
function setHome(): void {
  if (Deno.env.get("HOME")) return;
  try {
    Deno.env.set("HOME", userInfo().homedir);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error; // else the system does not know the user
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
