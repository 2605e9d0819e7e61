import { assertEquals } from "@std/assert";
import fc from "../../../tests/support/fast_check.ts";
import { readShell } from "./commands.ts";
import { cpuMs } from "../../../tests/support/stalls.ts";

/** Simple commands and their words. */
const SIMPLE: readonly (readonly [text: string, ...words: string[]])[] = [
  ["ls", "ls"],
  ["ls -la /etc", "ls", "-la", "/etc"],
  ["  ls\t-l  \n", "ls", "-l"],
  ["'ls' \"-l\"", "ls", "-l"],
  ["ls -'l'a''", "ls", "-la"],
  ["ls '' \"\"", "ls", "", ""],
  ["echo 'a b' \"c  d\"", "echo", "a b", "c  d"],
  ['echo "a\\"b\\\\c\\$d\\`e"', "echo", 'a"b\\c$d`e'],
  ["echo '$(id)' '`id`' 'a|b;c > d'", "echo", "$(id)", "`id`", "a|b;c > d"],
  ["echo \\$x \\* \\ \\'", "echo", "$x", "*", " '"],
  ["echo 'für' \"→\"", "echo", "für", "→"],
  ["git log --format='%h %s' HEAD~2", ""],
  ["git log --format='%h %s' HEAD\\~2", "git", "log", "--format=%h %s", "HEAD~2"],
  ["grep -E '^a\\.b$' x,y", "grep", "-E", "^a\\.b$", "x,y"],
  ["/usr/bin/rm x", "rm", "x"],
  ["./rm x", "./rm", "x"],
  ["ls A=1", "ls", "A=1"],
  ["find . -name '*.ts'", "find", ".", "-name", "*.ts"],
];

for (const [text, ...words] of SIMPLE) {
  Deno.test(`readShell() reads ${JSON.stringify(text)}`, () => {
    const found = readShell(text);
    assertEquals(found.type === "simple" ? found.words : [""], words);
  });
}

/** Texts that are more than a simple command, and why. */
const REASONS: readonly (readonly [text: string, reason: string])[] = [
  ["a | b", "it has a |"],
  ["ls\nrm x", "it has more than one line"],
  ['echo "$x"', "it has an unclosed quote, or an expansion in double quotes"],
  ["echo 'a\nb'", "it has a line break or control character in quotes"],
  ["ls \u00a0x", "it has an unusual character"],
  ["A=1 ls", "it sets a variable"],
  ["if a", "it starts with if"],
  ["eval x", "eval may run what is in its arguments"],
  ["find . -exec ls '{}' '+'", "find may run what is in its arguments"],
  ["echo =ls", "it has a word that starts with ="],
  ["echo 'a\\'", "it has a backslash before a backslash or a quote"],
  ["", "it has no command"],
];

for (const [text, reason] of REASONS) {
  Deno.test(`readShell() says of ${JSON.stringify(text)}: ${reason}`, () => {
    const found = readShell(text);
    assertEquals(found.type === "other" ? found.reason : "simple", reason);
  });
}

Deno.test("readShell() finds a word wherever a text has it", () => {
  const { line } = fc.letrec<{ line: string }>((tie) => ({
    line: fc.oneof(
      { maxDepth: 4 },
      fc.constant("needle x"),
      tie("line").map((line) => `ls; ${line}`),
      tie("line").map((line) => `( ${line}\n) | sort`),
      tie("line").map((line) => `echo "a $( ${line}\n)"`),
      tie("line").map((line) => `echo a\`${line}\``),
      tie("line").map((line) => `if true\nthen ${line}\nfi`),
      tie("line").map((line) => `sh -c '${line.replaceAll("'", "'\\''")}'`),
      tie("line").map((line) => `cat <<E${line.length}\n$( ${line}\n)\nE${line.length}`),
      tie("line").map((line) => `A=1 true&&{ ${line}\n}`),
    ),
  }));
  fc.assert(fc.property(line, (line) => {
    assertEquals(readShell(line).mentioned.includes("needle"), true);
  }));
});

Deno.test("readShell() takes no long time for long texts", () => {
  const start = cpuMs();
  for (const piece of ["a", "' '", '"a"', "\\ ", "'", '"', "\\", "$(", " ", "\n", "' "]) {
    readShell(`echo ${piece.repeat(2 ** 20)}`);
    readShell(`echo ${piece.repeat(60_000 / piece.length)}`);
  }
  assertEquals(cpuMs() - start < 10_000, true);
});
