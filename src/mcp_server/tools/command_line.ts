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
    ? [
      "ipybox",
      "register",
      name,
      "--url",
      params.url,
      ...options("--header", params.headers, ": "),
    ]
    : [
      ...["ipybox", "register", name, ...options("--env", params.env, "=")],
      ...["--", params.command, ...(params.args ?? [])],
    ];
  return words.map(shellWord).join(" ");
}

/** An option for each pair. */
function options(
  option: string,
  pairs: Readonly<Record<string, string>> | undefined,
  separator: string,
): string[] {
  return Object.entries(pairs ?? {}).flatMap(([name, value]) => [option, name + separator + value]);
}
