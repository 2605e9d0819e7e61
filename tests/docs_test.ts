/** The documents: their links lead somewhere, and their commands, options, tasks and code exist. */
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Command, parseCommandLine, UsageError } from "../src/commands/command.ts";
import { COMMANDS } from "../src/commands/mod.ts";
import config from "../deno.json" with { type: "json" };
import { filesBelow } from "./support/files.ts";
import { runProgram } from "./support/program.ts";

/** Options of other programs that documents name. */
const OTHERS: Readonly<Record<string, string>> = {
  agents: "debug input-format log-level print",
  deno: "allow-env allow-net allow-read allow-run allow-write config",
  docker: "init interactive rm security-opt tag volume",
  kubectl: "current kustomize namespace",
  servers: "headless output-dir",
  srt: "debug settings",
  others: "ntasks prefix shared unbuffered",
};

/** Options of ipybox before or beside those of a command. */
const COMMON = ["help", "version", "trace-startup"];

const root = fileURLToPath(new URL("../", import.meta.url));

/** A document; `lines` has those of fenced blocks, too, with the language of their fence. */
interface Page {
  readonly path: string;
  readonly text: string;
  readonly lines: readonly { readonly text: string; readonly fence: string | undefined }[];
}

const pages = await Promise.all((await pathsOfPages()).map(readPage));
const commands = new Map<string, Command>();
for (const [name, { load }] of Object.entries(COMMANDS)) commands.set(name, await load());

Deno.test("Every relative link in the documents leads to a file, and to a heading of it", async () => {
  const problems: string[] = [];
  for (const page of pages) {
    const prose = proseOf(page);
    for (
      const { text: link, line } of found(prose, /\]\(([^)\s]+)[^)]*\)|(?:src|href)="([^"]+)"/g)
    ) {
      if (/^[a-z]+:/.test(link)) continue;
      const [file = "", anchor] = decodeURI(link).split("#");
      const path = file === "" ? page.path : join(dirname(page.path), file);
      const target = pages.find((each) => each.path === path);
      if (target === undefined && !await exists(path)) {
        problems.push(`${page.path}:${line}: no ${link}`);
      } else if (anchor !== undefined && !(target && anchorsOf(target).has(anchor))) {
        problems.push(`${page.path}:${line}: no heading for ${link}`);
      }
    }
  }
  assertEquals(problems, []);
});

Deno.test("Every command of ipybox in the documents can be given, as far as its options go", () => {
  const problems = pages.flatMap((page) =>
    commandLinesIn(page).flatMap(({ words, line, isWhole }) => {
      const problem = problemWith(words);
      // In prose, commands stand for themselves.
      if (problem === undefined || !(isWhole || problem.startsWith("Unknown"))) return [];
      return [`${page.path}:${line}: ipybox ${words.join(" ")}: ${problem}`];
    })
  );
  assertEquals(problems, []);
});

Deno.test("Every option in the documents exists, and every option is in the documents", () => {
  const known = new Set([
    ...COMMON,
    ...[...commands.values()].flatMap(({ options }) => Object.keys(options)),
  ]);
  const others = new Set(Object.values(OTHERS).flatMap((names) => names.split(" ")));
  const named = new Set(pages.flatMap((page) => commandLinesIn(page).flatMap(optionsGiven)));
  const problems: string[] = [];
  for (const { path, text } of pages) {
    for (const { text: name, line } of found(text, /(?<![\w!-])--([a-z][\w-]*)/g)) {
      named.add(name);
      if (!known.has(name) && !others.has(name)) {
        problems.push(`${path}:${line}: no option --${name}`);
      }
    }
  }
  for (const name of known) if (!named.has(name)) problems.push(`no document names --${name}`);
  for (const name of others) {
    if (!named.has(name)) problems.push(`no document names --${name} of another program`);
  }
  assertEquals(problems, []);
});

Deno.test("Every task in the documents exists", () => {
  const problems = pages.flatMap(({ path, text }) =>
    found(text, /\bdeno(?:@[\d.]+)?\s+task\s+(?:-\S+\s+)*([a-z][\w-]*)/g)
      .filter(({ text: name }) => !Object.hasOwn(config.tasks, name))
      .map(({ text: name, line }) => `${path}:${line}: no task ${name}`)
  );
  assertEquals(problems, []);
});

Deno.test("Every block of TypeScript in the documents type-checks, unless its fence says ignore", async () => {
  const args = ["check", "--quiet", "--doc-only", ...pages.map(({ path }) => path)];
  const { success, stderr } = await runProgram(Deno.execPath(), args, {
    cwd: root,
    env: { NO_COLOR: "1" },
  });
  assert(success, stderr.replaceAll(`file://${root}`, ""));
});

Deno.test("Every file that ARCHITECTURE.md names, and every test that a page names, exists", async () => {
  const files: string[] = [];
  for (const folder of ["packaging", "src", "templates", "tests"]) {
    for (const name of (await filesBelow(root + folder)).keys()) files.push(`/${folder}/${name}`);
  }
  files.push(...Object.values(config.exports).map((path) => path.slice(1)));
  const problems = pages.flatMap(({ path, text }) => {
    const named = path === "ARCHITECTURE.md"
      ? /(?<![\w/.-])((?:\w+\/)*\w+\.(?:ts|py|js))\b/g
      : /\b(tests\/(?:\w+\/)*\w+\.ts)\b/g;
    return found(text, named)
      .filter(({ text: file }) => !files.some((each) => each.endsWith(`/${file}`)))
      .map(({ text: file, line }) => `${path}:${line}: no ${file}`);
  });
  assertEquals(problems, []);
});

async function pathsOfPages(): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(`${root}docs`), ({ name }) => name);
  const docs = names.filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`).sort();
  return ["README.md", "ARCHITECTURE.md", "SECURITY.md", "examples/README.md", ...docs];
}

async function readPage(path: string): Promise<Page> {
  const text = await Deno.readTextFile(root + path);
  let fence: string | undefined;
  const lines = text.split("\n").map((text) => {
    const [, ticks, language] = /^\s*(```+|~~~+)(\w*)/.exec(text) ?? [];
    const within = fence;
    if (ticks !== undefined) fence = fence === undefined ? language : undefined;
    return { text, fence: within ?? fence };
  });
  return { path, text, lines };
}

async function exists(path: string): Promise<boolean> {
  try {
    await Deno.stat(root + path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** The text without its fenced blocks; lines keep their numbers. */
function proseOf({ lines }: Page): string {
  return lines.map(({ text, fence }) => fence === undefined ? text : "").join("\n");
}

/** What the groups of a pattern match in a text, and in which line. */
function found(text: string, pattern: RegExp): { readonly text: string; readonly line: number }[] {
  return [...text.matchAll(pattern)].map((match) => ({
    text: match.slice(1).find((group) => group !== undefined) ?? "",
    line: text.slice(0, match.index).split("\n").length,
  }));
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchorsOf(page: Page): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const { text } of found(proseOf(page), /^#{1,6} +(.*?) *$/gm)) {
    const words = text.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    const anchor = words.replaceAll(/[^\p{L}\p{M}\p{N}\s_-]/gu, "").replaceAll(" ", "-");
    let copy = anchor;
    for (let count = 1; anchors.has(copy); count++) copy = `${anchor}-${count}`;
    anchors.add(copy);
  }
  return anchors;
}

/** A command line of ipybox in a page, from its command on. */
interface CommandLine {
  readonly words: readonly string[];
  readonly line: number;
  /** Whether it is one to be typed, and not named in prose. */
  readonly isWhole: boolean;
}

function commandLinesIn(page: Page): CommandLine[] {
  const prose = proseOf(page);
  const inProse = found(prose, /`([^`]+)`/g).flatMap(({ text, line }) =>
    commandLines(text.replaceAll(/\s+/g, " "))
      .map(({ words }) => ({ words, line, isWhole: false }))
  );
  return [...inProse, ...commandLines(shellOf(page)).map((each) => ({ ...each, isWhole: true }))];
}

/** What fenced blocks have a shell do; lines keep their numbers. */
function shellOf({ lines }: Page): string {
  let continues = false;
  return lines.map(({ text, fence }) => {
    const [, prompt, typed = ""] = /^(\s*\$ |)(.*)$/.exec(text) ?? [];
    const isTyped = /^(ba)?sh$/.test(fence ?? "") ||
      fence === "console" && (prompt !== "" || continues);
    continues = isTyped && text.endsWith("\\");
    return isTyped && !text.trimStart().startsWith("```") ? typed : "";
  }).join("\n");
}

/** Blanks, comments, what ends a command, and words. */
const TOKEN =
  /[ \t]+|\\\n|#.*|(\n|&&?|\|\|?|;|\d?>+(?:&\d)?|<+)|((?:'[^']*'|"(?:\\[^]|[^"\\])*"|\\.|[^\s'"\\;|&<>])+)/g;

/** Where ipybox is called in a script for a shell, also by other programs, as in `claude mcp add`. */
function commandLines(script: string): Omit<CommandLine, "isWhole">[] {
  const calls: { words: string[]; line: number }[] = [{ words: [], line: 1 }];
  for (const match of script.matchAll(TOKEN)) {
    const [, end, word] = match;
    const line = script.slice(0, match.index).split("\n").length;
    if (end !== undefined) calls.push({ words: [], line: end === "\n" ? line + 1 : line });
    else if (word !== undefined) calls.at(-1)?.words.push(word.replaceAll(/['"]|\\(.)/g, "$1"));
  }
  return calls.flatMap(({ words, line }) => {
    const at = words.findIndex((word, i) =>
      word === "ipybox" && /^(?!ipybox$)[a-z]/.test(words[i + 1] ?? "")
    );
    return at === -1 ? [] : [{ words: words.slice(at + 1), line }];
  });
}

/** What ipybox would say of a command line. */
function problemWith([name = "", ...args]: readonly string[]): string | undefined {
  const command = commands.get(name);
  if (name === "help") return undefined;
  if (command === undefined) return `Unknown command "${name}"`;
  try {
    parseCommandLine(name, command, args.filter((arg) => !COMMON.includes(arg.replace("--", ""))));
    return undefined;
  } catch (error) {
    if (error instanceof UsageError) return error.message;
    throw error;
  }
}

/** The options that a command line gives, also by their letters. */
function optionsGiven({ words: [name = "", ...args] }: CommandLine): string[] {
  const options = Object.entries(commands.get(name)?.options ?? {});
  return options.filter(([, { short }]) => short !== undefined && args.includes(`-${short}`))
    .map(([name]) => name);
}
