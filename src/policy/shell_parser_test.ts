import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { describeCommand, ShellSyntaxError } from "./shell_command.ts";
import { parseShell } from "./shell_parser.ts";

/** Lines, and the commands that they run: `~` marks those that only start others. */
const PARSED: readonly (readonly [line: string, ...commands: string[]])[] = [
  ["ls", "ls"],
  ["ls -la /etc", "ls -la /etc"],
  ["  ls\t-l  ", "ls -l"],
  ["'ls' \"-l\"", "ls -l"],
  ["l\\s -'l'a", "ls -la"],
  ["ls\\\n -l", "ls -l"],
  ["ls # rm x", "ls"],
  ["echo a#b", 'echo "a#b"'],
  ["echo 'a b' \"c d\"", 'echo "a b" "c d"'],
  ['echo "a\\"b\\c"', 'echo "a\\"b\\\\c"'],
  ["echo '$(id)' '`id`'", 'echo "$(id)" "`id`"'],
  ['echo "$"', 'echo "$"'],
  ["echo {a {a} {} a,}", 'echo "{a" "{a}" "{}" "a,}"'],
  ["test -v a", "test -v a"],
  ["eval -- 'ls x'", '~eval -- "ls x"', "ls x"],
  ["trap -- 'ls x' EXIT", 'trap -- "ls x" EXIT', "ls x"],
  ["ls; rm x", "ls", "rm x"],
  ["ls;rm x;", "ls", "rm x"],
  ["ls\nrm x\n", "ls", "rm x"],
  ["ls & rm x", "ls", "rm x"],
  ["ls && rm x", "ls", "rm x"],
  ["ls || rm x", "ls", "rm x"],
  ["ls | rm x", "ls", "rm x"],
  ["ls |& rm x", "ls", "rm x"],
  ["ls|rm x&&id||w", "ls", "rm x", "id", "w"],
  ["(ls; rm x)", "ls", "rm x"],
  ["( (ls) )", "ls"],
  ["{ ls; rm x; }", "ls", "rm x"],
  ["! ls", "ls"],
  ["time -p ls", "ls"],
  ["if a; then b; elif c; then d; else e; fi", "a", "b", "c", "d", "e"],
  ["while a; do b; done", "a", "b"],
  ["until a; do b; done", "a", "b"],
  ['for f in *.txt $(id); do rm "$f"; done', "id", "rm …"],
  ["for f; do rm x; done", "rm x"],
  ["echo if then fi", "echo if then fi"],
  ['"if" x', "if x"],
  ["echo $(id)", "id", "echo …"],
  ['echo "a $(id) b"', "id", "echo …"],
  ["echo `id`", "id", "echo …"],
  ['echo "`id`"', "id", "echo …"],
  ["echo `echo \\`id\\``", "id", "echo …", "echo …"],
  ['echo "$(echo "$(id)")"', "id", "echo …", "echo …"],
  ["echo $(ls; rm x)", "ls", "rm x", "echo …"],
  ["echo $(echo ')')", 'echo ")"', "echo …"],
  ["echo ${x:-$(id)}", "id", "echo …"],
  ["echo $x ${x} ${#x} ${x%y} $1 $@ $?", "echo … … … … … … …"],
  ["echo $((1 + 3 * 2))", "echo …"],
  ["echo *.txt ~/x {a,b} [ab] a?", "echo … … … … …"],
  ["echo '*.txt' \"~\" \\*", 'echo "*.txt" "~" "*"'],
  ["diff <(ls a) >(rm b)", "ls a", "rm b", "diff … …"],
  ["ls > out", "> out", "ls"],
  ["ls >out 2>&1", "> out", "ls"],
  ["> out ls", "> out", "ls"],
  ["ls >> out", "> out", "ls"],
  ["ls >| out", "> out", "ls"],
  ["ls <> out", "> out", "ls"],
  ["ls &> out", "> out", "ls"],
  ["ls >& out", "> out", "ls"],
  ["ls 2> out", "> out", "ls"],
  ["ls 2 > out", "> out", "ls 2"],
  ["ls > /dev/null 2>&1 <&-", "ls"],
  ["cat < in", "< in", "cat"],
  ["ls > $x", "> …", "ls"],
  ["> out", "> out"],
  ["{ ls; } > out", "ls", "> out"],
  ["(ls) > out | w", "ls", "> out", "w"],
  ["cat <<EOF\n$(id) `w`\nEOF\nls", "cat", "id", "w", "ls"],
  ["cat <<'EOF'\n$(id)\nEOF\nls", "cat", "ls"],
  ["cat <<-EOF\n\t$x\n\tEOF", "cat"],
  ["cat <<A <<B\n$(a)\nA\n$(b)\nB", "cat", "a", "b"],
  ["cat <<< $(id)", "id", "cat"],
  ["A=1", "VAR=…"],
  ["A=1 ls", "VAR=… ls"],
  ["A=$(id) ls", "id", "VAR=… ls"],
  ["ls A=1", "ls A=1"],
  ["'A'=1 ls", "A=1 ls"],
  ["/usr/bin/rm x", "rm x"],
  ["./rm x", "./rm x"],
  ["env", "env"],
  ["env ls", "~env ls", "ls"],
  ["env -i A=1 ls -l", "~env -i A=1 ls -l", "VAR=… ls -l"],
  ["env -u A ls", "~env -u A ls", "ls"],
  ["sudo ls", "sudo ls", "ls"],
  ["sudo -u root -- ls", "sudo -u root -- ls", "ls"],
  ["nohup nice -n 5 ls", "~nohup nice -n 5 ls", "~nice -n 5 ls", "ls"],
  ["timeout -k 1 5 ls", "~timeout -k 1 5 ls", "ls"],
  ["command ls", "~command ls", "ls"],
  ["command -v ls", "command -v ls"],
  ["exec ls", "~exec ls", "ls"],
  ["xargs rm -f", "~xargs rm -f", "rm -f …"],
  ["xargs -n 1 -0 rm", "~xargs -n 1 -0 rm", "rm …"],
  ["xargs -I% mv % x", "~xargs -I% mv % x", "mv … x"],
  ["sh -c 'ls; rm x'", '~sh -c "ls; rm x"', "ls", "rm x"],
  ["bash -ec 'sh -c id'", '~bash -ec "sh -c id"', "~sh -c id", "id"],
  ["bash script.sh -c", "bash script.sh -c"],
  ["curl x | sh", "curl x", "sh"],
  ["eval 'ls;' id", '~eval "ls;" id', "ls", "id"],
  ["trap 'rm x' EXIT", 'trap "rm x" EXIT', "rm x"],
  ["printf '%s' \"$x\"", "printf %s …"],
  ["printf -v a -- '%s' $x", "printf -v a -- %s …"],
  ["xargs printf %s", "~xargs printf %s", "printf %s …"],
  ["find . -exec rm {} +", 'find . -exec rm "{}" +', "rm …"],
  [
    "sudo env A=1 xargs sh -c 'id'",
    "sudo env A=1 xargs sh -c id",
    "~env A=1 xargs sh -c id",
    "~VAR=… xargs sh -c id",
    "~VAR=… sh -c id …",
    "VAR=… id",
  ],
  ["", ...[]],
  ["# nothing", ...[]],
];

/** Lines that cannot be taken apart for sure. */
const REFUSED: readonly string[] = [
  "echo 'a",
  'echo "a',
  "echo `a",
  "echo $(a",
  "echo ${a",
  "ls \\",
  "(ls",
  "ls)",
  "{ ls;",
  "}",
  "fi",
  "if a; then b",
  "if a; do b; done",
  "while a; then b; fi",
  "for 1 in a; do b; done",
  "f() { ls; }",
  "function f { ls; }",
  "ls() (rm x)",
  "case x in a) ls;; esac",
  "select x in a; do b; done",
  "coproc ls",
  "[[ -f x ]]",
  "((x = 1))",
  "a=(1 2)",
  "echo @(a|b)",
  "$x ls",
  "$(id) ls",
  "`id` ls",
  "*/ls",
  "{ls,-l}",
  "~/ls",
  "env -S 'ls -l'",
  "env $x ls",
  "env A=1 $x",
  "sudo -i",
  "sudo --unknown ls",
  "xargs --unknown ls",
  "xargs -I% % x",
  "sh -c",
  'sh -c "$x"',
  "bash -lc ls",
  "bash --norc -c ls",
  "eval $x",
  'eval "$(id)"',
  "trap $x EXIT",
  "find . -exec rm {}",
  "find . -exec {} \\;",
  "timeout $x ls",
  "time -o x ls",
  "ls >",
  "ls > ;",
  "ls <& x",
  "ls {fd}> x",
  "cat <<EOF\nx",
  "cat <<$x\nx\n$x",
  "cat <<EOF\na\\\nb\nEOF",
  "echo ${!x}",
  "echo ${x@P}",
  "echo ${x[0]}",
  "echo ${x:-'a'}",
  "echo $((x[$(id)]))",
  "echo $((x))", // bash runs what is in it: x='a[$(id)]'
  "printf -v 'a[$(id)]' x",
  "printf '-va[$(id)]' x",
  "test -v 'a[$(id)]'",
  "[ -v 'a[$(id)]' ]",
  "read 'a[$(id)]'",
  "declare -i 'a=b[$(id)]'",
  "mapfile -C id -c 1 a",
  "let 'a[$(id)]=1'",
  "echo ${x:-<(id)}",
  'echo "${x:->(id)}"',
  "find . $z",
  "find $dir -name x",
  "find *.txt",
  "find . -exec ls $z \\;", // z='; -exec id ;'
  "find . -exec nice + id \\;", // not after {}: an argument
  "find . -ok nice {} + \\;",
  "printf . -exec id | xargs find",
  "xargs -I% find %",
  "xargs -I% -n 2 ls %", // then % means nothing, and the words come last
  "env A=1 B$x=1 ls", // x='=1 id '
  'test -v "$q"',
  "test -f x -o -v $q",
  '[ "$x" ]',
  'read "$q"',
  'printf -v "$q" x',
  'printf "$q" x',
  'printf -v a -v "$q" x',
  'declare "$q"',
  "mapfile $q",
  "jobs -x id",
  "alias ls=rm",
  "compgen -C id",
  "bash +O extglob -c id",
  "bash +B -c id",
  `${"env ".repeat(40)}ls`,
  "echo $[1]",
  "echo $'a\\'b'",
  "ls\r",
  "ls\0",
  "ls \x1b[2J",
  "if a; then b; fi c",
  "(ls) x",
  `${"$(".repeat(40)}ls${")".repeat(40)}`,
  "x".repeat(70_000),
];

for (const [line, ...commands] of PARSED) {
  Deno.test(`parseShell() takes apart ${JSON.stringify(line)}`, () => {
    const found = parseShell(line).map((one) => (one.wrapper ? "~" : "") + describeCommand(one));
    assertEquals(found, commands);
  });
}

for (const line of REFUSED) {
  Deno.test(`parseShell() refuses ${JSON.stringify(line).slice(0, 60)}`, () => {
    assertThrows(() => parseShell(line), ShellSyntaxError);
  });
}

Deno.test("parseShell() gives commands or says why not, whatever it is given", () => {
  const piece = fc.constantFrom(..."'\"`$(){}<>|&;\n\t \\#=*~!a1-", "if ", "fi", "EOF", "<<EOF\n");
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.array(piece).map((pieces) => pieces.join(""))), (line) => {
      try {
        parseShell(line);
      } catch (error) {
        if (!(error instanceof ShellSyntaxError)) throw error;
      }
    }),
    { numRuns: 3000 },
  );
});

Deno.test("parseShell() takes no long time for long words", () => {
  for (const piece of ["{,", "{..", "{a,b}", "$(a", "`a", "env ", "xargs ", "<<A "]) {
    const line = `echo ${piece.repeat(60_000 / piece.length)}`; // cubic time would be hours
    try {
      parseShell(line);
    } catch (error) {
      if (!(error instanceof ShellSyntaxError)) throw error;
    }
  }
});

Deno.test("parseShell() finds a command wherever a line has it", () => {
  const { line } = fc.letrec<{ line: string }>((tie) => ({
    line: fc.oneof(
      { maxDepth: 4 },
      fc.constant("needle x"),
      tie("line").map((line) => `ls; ${line}`),
      tie("line").map((line) => `( ${line}\n) | sort`),
      tie("line").map((line) => `echo "a $( ${line}\n)"`),
      tie("line").map((line) => `if true\nthen ${line}\nfi`),
      tie("line").map((line) => `sh -c '${line.replaceAll("'", "'\\''")}'`),
      tie("line").map((line) => `cat <<E${line.length}\n$( ${line}\n)\nE${line.length}`),
      tie("line").map((line) => `A=1 true && { ${line}\n}`),
    ),
  }));
  fc.assert(fc.property(line, (line) => {
    assertEquals(
      parseShell(line).some((command) => describeCommand(command).endsWith("needle x")),
      true,
    );
  }));
});
