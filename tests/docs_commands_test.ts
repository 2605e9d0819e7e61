/**
 * The commands and programs in README.md and docs/ run as they stand, in the order of their page. A
 * comment before a fence, which readers do not see, has what a run needs besides:
 *
 *     <!-- not run: REASON -->        it cannot run here, or another test runs the same
 *     <!-- file: PATH -->             it is what this file contains
 *     <!-- answers: A, B -->          what is typed at its questions
 *     <!-- exits with: N -->          it shows an error
 *     <!-- serves: COMMAND -->        it serves $URL until it is stopped, after this command
 *     <!-- alone: REASON -->          a program that cannot share a process with the one before it
 *
 * README.md has npm's `npx`, all other pages one that does the same in less time.
 */
import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { shellWord } from "../src/base/shell_word.ts";
import { cliArguments } from "./support/cli.ts";
import { npmRegistry } from "./support/npm_registry.ts";
import { writeNpx } from "./support/npx.ts";
import { runProgram } from "./support/program.ts";
import { testIf } from "./support/skip.ts";
import { denoDirectory } from "./support/temp_cache.ts";
import { TempFolder } from "./support/temp_folder.ts";
import { atTerminal } from "./support/terminal.ts";

const root = fileURLToPath(new URL("../", import.meta.url));

/** A fenced block, and what the comment before it says. */
interface Block {
  readonly line: number;
  readonly language: string;
  readonly text: string;
  readonly note: string | undefined;
  readonly value: string;
}

const CONFIG = `--config ${shellWord(`${root}deno.json`)}`;

/** What a shell runs for a block of each language, whose text is in a file. */
const RUNS: Readonly<Record<string, (text: string, file: string) => string>> = {
  sh: (text) => text,
  console: (text) =>
    [...text.matchAll(/^\$ ((?:.*\\\n)*.*)$/gm)].map(([, typed]) => typed).join("\n"),
  python: (_, file) => `ipybox run --approve allow ${file}`,
  ipynb: (_, file) => `ipybox run --approve allow ${file}`,
  ts: (_, file) => `deno run -A ${CONFIG} ${file}`,
  imports: (_, file) => `deno run -A ${CONFIG} ${file}`,
  jsonc: (_, file) => `ipybox policy test --file ${file}`, // our only ones are policies
};

/** How the names of files of a language end, if not in its name. */
const ENDS: Readonly<Record<string, string>> = { imports: "all.ts", python: "py" };

/** Files that commands name, in the folder where a page begins. */
const FILES: Readonly<Record<string, string>> = {
  "../policy.json": '{ "rules": [] }',
  "action.py": "print('done')\n",
  "analysis.py": "print('analysed')\n",
  "convert.py": "import sys\nprint(sys.argv[1:])\n",
  "report.ipynb": notebookOf(["1 + 1"]),
  "sales.csv": "region,units\nnorth,3\nsouth,4\nnorth,5\n",
};

const names = await Array.fromAsync(Deno.readDir(`${root}docs`), ({ name }) => name);
const pages = names.filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`).sort();
const registry = await npmRegistry();

for (const page of ["README.md", ...pages]) {
  const blocks = withNotebooks(blocksOf(await Deno.readTextFile(root + page)).filter(isRun));
  if (blocks.length === 0) continue;
  const isReadme = page === "README.md";
  const isLocal = !isReadme && !blocks.some(({ text }) => /\binstall/.test(text));
  testIf(isLocal || registry !== undefined, "the npm registry cannot be reached", {
    name:
      `The commands and programs in ${page} run, unless a comment before their fence says why not`,
    fn: async () => {
      await using home = await TempFolder.create();
      await furnish(home.path);
      await (isReadme ? writeNpmSettings(home.path) : writeNpx(`${home.path}/bin`));
      const runs = withPrograms(page, blocks);
      for (const block of [...blocks, ...runs]) {
        await Deno.writeTextFile(`${home.path}/${fileOf(block)}`, block.text);
      }
      const script = runs.map((block) => scriptOf(page, block));
      await Deno.writeTextFile(`${home.path}/page.sh`, script.join("\n"));
      const answers = blocks.filter(({ note }) => note === "answers")
        .flatMap(({ value }) => value.split(", "));

      const { code, output } = await atTerminal(
        ["bash", "-e", `${home.path}/page.sh`],
        answers.map((answer) => ["? ", `${answer}\n`] as const),
        { columns: 200, cwd: `${home.path}/project`, env: await variables(home.path) },
      );

      assertEquals(code, 0, output);
    },
  });
}

function blocksOf(text: string): Block[] {
  const fences = /(?:^<!-- ([a-z ]+): (.+) -->\n\n)?^```(\w*).*\n([^]*?)^```$/gm;
  return [...text.matchAll(fences)].map((match) => {
    const { index, 0: whole, 1: note, 2: value = "", 3: language = "", 4: code = "" } = match;
    const line = text.slice(0, index + whole.indexOf("```")).split("\n").length;
    const [, path] = language === "python" && /^# ([\w/]+\.py)\n/.exec(code) || [];
    return path === undefined
      ? { line, language, text: code, note, value }
      : { line, language, text: code, note: "file", value: path };
  });
}

function isRun({ language, note }: Block): boolean {
  return note === "file" || note !== "not run" && Object.hasOwn(RUNS, language);
}

/** Python that follows Python runs in the same kernel, but without its variables. */
function withNotebooks(blocks: readonly Block[]): Block[] {
  const joined: Block[] = [];
  let sources: string[] = [];
  for (const block of blocks) {
    if (block.language !== "python" || block.note !== undefined) {
      sources = [];
      joined.push(block);
      continue;
    }
    if (sources.length > 0) joined.pop();
    sources.push(block.text, "%reset -f");
    joined.push({ ...block, language: "ipynb", text: notebookOf(sources) });
  }
  return joined;
}

/** TypeScript that follows TypeScript runs in the same process, one program after the other. */
function withPrograms(page: string, blocks: readonly Block[]): Block[] {
  const joined: Block[] = [];
  for (const block of blocks) {
    const { line, language, note, value } = block;
    if (language !== "ts" || note === "alone" || note === "serves") {
      joined.push(block);
      continue;
    }
    const text = `console.log("[${page}:${line}]");
await import("./${fileOf(block)}");
`;
    const before = joined.at(-1);
    if (before?.language === "imports") {
      const asked = note === undefined ? {} : { note, value };
      joined.splice(-1, 1, { ...before, text: before.text + text, ...asked });
    } else {
      joined.push({ ...block, language: "imports", text });
    }
  }
  return joined;
}

function notebookOf(sources: readonly string[]): string {
  return JSON.stringify({
    cells: sources.map((source) => ({ cell_type: "code", source, metadata: {}, outputs: [] })),
    metadata: {},
    nbformat: 4,
    nbformat_minor: 5,
  });
}

/** What a shell does for a block that runs. */
function scriptOf(page: string, block: Block): string {
  const { line, language, text, note, value } = block;
  const file = `~/${fileOf(block)}`;
  const title = `echo '[${page}:${line}]'`;
  if (note === "file") return `${title}; mkdir -p $(dirname ${value}); cp ${file} ${value}`;
  const input = note === "answers" ? "" : "</dev/null";
  const end = note === "exits with" ? `|| status=$?; test $status = ${value}` : "";
  const run = RUNS[language]?.(text, file) ?? "";
  return `${title}; status=0; {\n${
    note === "serves" ? served(run, value) : run
  }\n} ${input} ${end}`;
}

/** Starts a program, uses it once it says where it listens, and stops it, which it does cleanly. */
function served(program: string, use: string): string {
  return `coproc SERVER { DENO_SERVE_ADDRESS=tcp:127.0.0.1:0 exec ${program} 2>&1; }
pid=$SERVER_PID
until [[ $line = 'Listening on '* ]]; do read -r line <&\${SERVER[0]}; echo "$line"; done
URL=\${line##* }
${use}
kill $pid; wait $pid`;
}

function fileOf({ line, language }: Block): string {
  return `${line}.${ENDS[language] ?? language}`;
}

/** Makes a home with a project in it, and this checkout's `ipybox`. */
async function furnish(home: string): Promise<void> {
  for (const name of ["project", "bin"]) await Deno.mkdir(`${home}/${name}`);
  for (const [name, text] of Object.entries(FILES)) {
    await Deno.writeTextFile(`${home}/project/${name}`, text);
  }
  const ipybox = [Deno.execPath(), ...cliArguments].map(shellWord).join(" ");
  await Deno.writeTextFile(`${home}/bin/ipybox`, `#!/bin/sh\nexec ${ipybox} "$@"\n`, {
    mode: 0o755,
  });
}

/** Writes how npm reaches its registry, which MCP servers find by HOME. */
async function writeNpmSettings(home: string): Promise<void> {
  const own = await Deno.readTextFile(await npmSetting("userconfig")).catch(() => "");
  // `npx` installs a package again in a cache that it reaches by a link.
  const settings = `${own}\ncache=${await npmSetting("cache")}\n`;
  await Deno.writeTextFile(`${home}/.npmrc`, settings, { mode: 0o600 });
}

async function npmSetting(name: string): Promise<string> {
  const { stdout } = await runProgram("npm", ["config", "get", name]);
  return stdout.trim();
}

async function variables(home: string): Promise<Record<string, string>> {
  return {
    DENO_DIR: await denoDirectory(),
    HOME: home,
    PATH: `${home}/bin:${Deno.env.get("PATH")}`,
    XDG_CACHE_HOME: `${home}/.cache`,
    XDG_CONFIG_HOME: `${home}/.config`,
    XDG_DATA_HOME: `${home}/.local/share`,
    XDG_STATE_HOME: `${home}/.local/state`,
  };
}
