import type { ServerParams } from "../../mcp/server_params.ts";
import { shellWord } from "../../mcp/shell_word.ts";

/**
 * The command with which a user registers a server himself.
 *
 * @param name The server's name.
 * @param params How it is started or reached.
 * @returns A line for a shell.
 */
export function registerCommand(name: string, params: ServerParams): string {
  const words = "url" in params
    ? ["ipybox", "register", name, "--url", params.url]
    : ["ipybox", "register", name, "--", params.command, ...(params.args ?? [])];
  return words.map(shellWord).join(" ");
}
