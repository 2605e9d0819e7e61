import { assert, assertEquals } from "@std/assert";
import { runScript } from "../../../tests/support/run_python.ts";
import { pythonColors } from "./python_colors.ts";

const KINDS: Readonly<Record<string, string>> = {
  35: "keyword",
  32: "string",
  33: "number",
  2: "comment",
  34: "magic",
};

/** Code's tokens by the first letters of their kinds. */
function marks(code: string): string {
  const letters = code.replace(/[^\n]/g, ".").split("");
  for (const { start, end, color } of pythonColors(code)) {
    for (let at = start; at < end; at++) {
      if (letters[at] === ".") letters[at] = KINDS[color]?.[0] ?? "?";
    }
  }
  return letters.join("");
}

/** Typed code, and the marks of its colors. */
const CASES: Readonly<Record<string, readonly (readonly [code: string, marks: string])[]>> = {
  "names are colored by what they mean where they stand": [
    ["for x in y: print(x) # c", "kkk...kk.............ccc"],
    ["match x:\n    case _: type", "kkkkk...\n....kkkk........"],
    ["match = type", "............"],
    ["1if x else.5j", "nkk...kkkknnn"],
    ["日本 in x", "...kk.."],
  ],
  "strings end where Python ends them": [
    ["rb'\\'' + '#'", "ssssss...sss"],
    ["'''a\n# b''' 1", "ssss\nssssss.n"],
    [`f"a{x!r:>{w}}b" + 'x{y}'`, "sssssssssssssss...ssssss"],
    ["f'{x=!r}' % y", "sssssssss...."],
  ],
  "code that is still being typed has colors": [
    ["x = 'a\nis", "....ss\nkk"],
    ["f'{x\nis", "ssss\nkk"],
    ["'''a\nprint", "ssss\nsssss"],
    ["(1,\n% 2", ".n.\n..n"],
    ["f'{", "sss"],
    ["'\\", "ss"],
  ],
  "what is not Python has none, but its magic": [
    ["%%bash\nfor x in y", "mmmmmm\n.........."],
    ["%%time\nfor x in y", "mmmmmm\nkkk...kk.."],
    ["%timeit not x\n%cd not", "mmmmmmm.kkk..\nmmm...."],
    ["x = !ls for\nlen?", "....m......\n...m"],
    [":tools for", "mmmmmm...."],
  ],
};

for (const [what, rows] of Object.entries(CASES)) {
  Deno.test(`Python at the prompt: ${what}`, () => {
    for (const [code, expected] of rows) assertEquals(marks(code), expected, code);
  });
}

Deno.test("Python at the prompt: the colors of any text are in order, also of a long one", () => {
  const parts = ["(", "f'{", '"', "x = ", "match ", ":", " ", "\n", "'\\", "}", "%", "?", "日"];
  for (const part of parts) {
    for (const start of ["", "(print", "match ", "f'"]) {
      const colored = pythonColors(start + part.repeat(10_000));
      for (const [at, { start, end }] of colored.entries()) {
        assert(start < end && end <= (colored[at + 1]?.start ?? Infinity), part);
      }
    }
  }
});

/** Modules with much of what strings and numbers can be. */
const MODULES = ["argparse", "_pydecimal", "datetime", "enum", "inspect", "pydoc", "tarfile"]
  .concat(["tokenize", "turtle", "typing", "unittest.mock", "uuid"]);

type Token = readonly [kind: string, start: number, end: number];

Deno.test("Python at the prompt: strings, comments, numbers and keywords are what Python takes for them", async () => {
  const modules = await runScript<readonly { path: string; tokens: readonly Token[] }[]>(
    "python_tokens.py",
    MODULES,
  );
  for (const { path, tokens } of modules) {
    const code = await Deno.readTextFile(path);
    const isSoft = (start: number) => /^(?:match|case|type)\b/.test(code.slice(start, start + 6));
    const colored = pythonColors(code)
      .map(({ start, end, color }): Token => [KINDS[color] ?? "", start, end])
      .filter(([kind, start]) => !(kind === "keyword" && isSoft(start)));
    const formatted = tokens.filter(([kind]) => kind === "f-string");
    assert(tokens.length > 500, path);
    assertEquals(
      joined(colored.filter(([, start]) => !isWithin(start, formatted))),
      joined(tokens.filter(([kind]) => kind !== "f-string")),
      path,
    );
  }
});

function isWithin(at: number, tokens: readonly Token[]): boolean {
  return tokens.some(([, start, end]) => at >= start && at < end);
}

/** Joins strings without a gap: which parts they have does not matter. */
function joined(tokens: readonly Token[]): readonly Token[] {
  const all: Token[] = [];
  for (const token of tokens) {
    const [kind, start, end] = token;
    const [lastKind, from, to] = all.at(-1) ?? [];
    const goesOn = from !== undefined && kind === "string" && lastKind === kind && to === start;
    if (goesOn) all[all.length - 1] = [kind, from, end];
    else all.push(token);
  }
  return all;
}
