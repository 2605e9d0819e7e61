import type { ServerParams } from "../../mcp/server_params.ts";
import { shellWord } from "../../mcp/shell_word.ts";

/** The command with which a user registers a server himself. */
export function registerCommand(name: string, params: ServerParams): string {
  const { connectTimeoutMs } = params;
  const time = connectTimeoutMs === undefined
    ? []
    : ["--connect-timeout", `${connectTimeoutMs / 1000}`];
  const start = ["ipybox", "register", name, ...time];
  const words = "url" in params
    ? [...start, "--url", params.url, ...options("--header", params.headers, ": ")]
    : [
      ...[...start, ...options("--env", params.env, "=")],
      ...(params.cwd === undefined ? [] : ["--cwd", params.cwd]),
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
