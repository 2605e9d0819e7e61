import { shellWord } from "../../src/base/shell_word.ts";
import { npmServer } from "./mcp.ts";
import { denoDirectory } from "./temp_cache.ts";

/**
 * Writes an `npx` that starts the servers published with the protocol as other tests do, by Deno. npm
 * itself takes several times as long for it, to no end where a test is about something else.
 *
 * @param folder Where, which then is to stand first on the `PATH`.
 * @param needed Variables without which npm's would not start.
 */
export async function writeNpx(folder: string, ...needed: readonly string[]): Promise<void> {
  const { command, args = [] } = npmServer("NAME");
  const words = [`DENO_DIR=${await denoDirectory()}`, command, ...args];
  const line = words.map((word) => shellWord(word).replace("NAME", '"$name"')).join(" ");
  await Deno.writeTextFile(
    `${folder}/npx`,
    `#!/bin/sh
${needed.map((name) => `: "\${${name}:?}"\n`).join("")}test "$1" = -y || exit 2
case $2 in @modelcontextprotocol/server-*) ;; *) exit 2 ;; esac
name=\${2#@modelcontextprotocol/}
name=\${name%@*}
shift 2
exec env ${line} "$@"
`,
    { mode: 0o755 },
  );
}
