import { shellWord } from "../../src/base/shell_word.ts";
import { cliArguments } from "../support/cli.ts";
import { atTerminal } from "../support/terminal.ts";
import type { Home } from "./home.ts";
import { pasted, type Recording, recordingOf, type Scene } from "./recording.ts";

/** How wide the terminal is. */
export const COLUMNS = 92;

const SERVER = "npx -y @modelcontextprotocol/server-filesystem@2026.8.31";
const SHELL = "\x1b[32m$\x1b[0m ";
const QUESTION = "Allow? [y]es [n]o [c]ell [a]lways [s]ession [e]dit [d]etails, then Enter: ";

const CODE = `
from mcptools.notes import read_text_file, write_file
todos = []
for day in ["monday", "tuesday", "wednesday"]:
    note = read_text_file.run(path=f"{day}.md").content
    todos += [line for line in note.splitlines() if "[ ]" in line]
write_file.run(path="todos.md", content="\\n".join(todos))
len(todos)
`.trim();

/** Registers a server, calls its tools in a loop, decides, and tries to do without the tools. */
const SCENES: readonly Scene[] = [
  { until: SHELL, reading: 0.8, typed: `!ipybox register notes -- ${SERVER} ~/notes\n` },
  { until: SHELL, reading: 1.2, typed: "!ipybox repl\n" },
  { until: "In [1]: ", reading: 0.8, typed: pasted(CODE) },
  { until: "len(todos)", reading: 2, typed: "\r" },
  { until: QUESTION, reading: 2.2, typed: "c\n" },
  { until: "[e]xactly these? ", reading: 1.2, typed: "a\n" },
  { until: QUESTION, reading: 2.6, typed: "y\n" },
  { until: "In [2]: ", reading: 1, typed: "!!ls ../notes\r" },
  { until: "In [3]: ", reading: 5, typed: "\x04" },
];

/**
 * Records a session in a shell, in which `ipybox` is this checkout's.
 *
 * @param home Whose session it is. The server `notes` is registered in its project afterwards.
 * @returns The recording.
 */
export async function recordSession(home: Home): Promise<Recording> {
  const settings = `${home.path}/.bashrc`;
  // Programs such as npx have their settings and their cache in the home of whoever makes the picture.
  const own = { ...home.env, HOME: Deno.env.get("HOME") ?? "/" };
  const variables = Object.entries(own).map(([name, value]) => `${name}=${shellWord(value)}`);
  const command = [Deno.execPath(), ...cliArguments].map(shellWord);
  await Deno.writeTextFile(
    settings,
    [
      String.raw`PS1='\[\e[32m\]$\[\e[0m\] '`,
      "bind 'set enable-bracketed-paste off'",
      `ipybox() { env -u NO_COLOR ${[...variables, ...command].join(" ")} "$@"; }`,
    ].join("\n"),
  );
  const { parts, output } = await atTerminal(
    ["bash", "--noprofile", "--rcfile", settings, "-i"],
    [...SCENES.map(({ until, typed }) => [until, typed] as const), [SHELL, "\x04"]],
    { columns: COLUMNS, cwd: home.project, env: { HOME: home.path } },
  );
  if (parts.length <= SCENES.length) throw new Error(`The session went otherwise:\n${output}`);
  return recordingOf(SCENES, parts.slice(0, SCENES.length));
}
