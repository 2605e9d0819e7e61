/** Texts that rules for shell commands must not be led astray by. */
import { assert, assertEquals } from "@std/assert";
import fc from "../support/fast_check.ts";
import { approvalCall, PolicyRules } from "../../src/approval/rules/rules.ts";
import { parsePolicy } from "../../src/approval/rules/parse.ts";
import type { PolicyEffect } from "../../src/approval/rules/schema.ts";
import { readShell } from "../../src/approval/rules/commands.ts";
import { TempFolder } from "../support/temp_folder.ts";

function decide(rules: readonly unknown[], command: string): PolicyEffect {
  const policy = new PolicyRules([parsePolicy("p.json", JSON.stringify({ rules }))]);
  return policy.decide(approvalCall({ kind: "shell", command })).mode;
}

/** Each runs `touch`, though its first words are a command that the rules allow. */
const TOUCHES: readonly string[] = [
  "echo 1 | xargs --max-lines touch echo x",
  'echo "$\\\n(touch x)"',
  'echo "${x:-a}$\\\n(touch x)"',
  "cat <<E\nfoo\\\nE\necho '\nE\ntouch x\n#'",
  'echo "${x:-`echo "a\\" ; touch X ; \\"b"`}"',
  'cat <<E\n`echo "a\\" ; touch X ; \\"b"`\nE',
  "echo; touch x",
  "echo\ntouch x",
  "echo & touch x",
  "echo | touch x",
  "echo && touch x",
  "echo $(touch x)",
  'echo "`touch x`"',
  "echo `echo \\`touch x\\``",
  "echo ${x:-$(touch x)}",
  "echo $((x[$(touch x)]))",
  "echo <(touch x)",
  'echo "${x:->(touch x)}"',
  "cat <<EOF\n$(touch x)\nEOF",
  "cat <<< $(touch x)",
  "A=$(touch x) echo",
  "(echo) | (touch x)",
  "if echo; then touch x; fi",
  "for f in a; do touch x; done",
  "echo() { touch x; }; echo",
  "echo () (touch x)",
  "case x in x) touch x;; esac",
  "alias echo=touch\necho x",
  "trap 'touch x' EXIT",
  "eval 'touch x'",
  "eval -- touch x",
  "printf -v 'a[$(touch x)]' x",
  "printf '-va[$(touch x)]' x",
  "test -v 'a[$(touch x)]'",
  "'[' -v 'a[$(touch x)]' ']'",
  "read 'a[$(touch x)]'",
  "declare -i 'a=b[$(touch x)]'",
  "declare -n r='a[$(touch x)]'; echo $r",
  "declare -n 'r=a[$(touch x)]'",
  "declare -a 'x=($(touch x))'",
  "declare -A 'x=([$(touch x)]=1)'",
  "typeset -a 'x=($(touch x))'",
  "local -a 'x=($(touch x))'",
  "readonly -a 'x=($(touch x))'",
  "mapfile -C touch -c 1 a",
  "let 'a[$(touch x)]=1'",
  "compgen -C touch",
  "exit 'a[$(touch x)]'",
  "jobs -x touch",
  "sh -c 'touch x'",
  "bash -ec 'sh -c \"touch x\"'",
  "bash +O extglob -c 'touch x'",
  "busybox touch x",
  "env touch x",
  "env -i A=1 touch x",
  "env -S 'touch x'",
  "sudo -u root -- touch x",
  "nohup nice -n 5 touch x",
  "timeout -k 1 5 touch x",
  "command touch x",
  "exec touch x",
  "xargs -n 1 -0 touch",
  "xargs -I% touch %",
  "find . -exec touch '{}' '+'",
  "find . -execdir touch x ';'",
  "find . -exec nice + touch \\;",
  "/usr/bin/env touch x",
  "/opt/tools/env touch x",
  "python3.13 -c 'import os; os.system(\"touch x\")'",
];

/** Texts whose commands are known only when they run. */
const UNKNOWN: readonly string[] = [
  "$x ls",
  "$(id) ls",
  "*/ls",
  "{ls,-l}",
  "~/ls",
  "env $x ls",
  "env A=1 $x",
  "xargs -I% % x",
  'sh -c "$x"',
  "eval $x",
  'test -v "$q"',
  "find . $z",
  "find . -exec ls $z \\;",
  "A=1 B$x=1 ls",
  "A=1 ls",
  "ls > out",
  "ls\r",
  "ls\0",
  "ls \x1b[2J",
  "ls\u00a0x",
  "ls \\",
  "ls '",
  "x".repeat(70_000),
];

Deno.test("A rule for any command allows nothing that is more than one simple command", () => {
  for (const text of [...TOUCHES, ...UNKNOWN]) {
    const allowed = ["**", "* **", "echo **", "cat **", "find **", "declare **", "printf **"];
    assertEquals(decide([{ effect: "allow", command: allowed }], text), "ask", text);
  }
});

Deno.test("A rule that denies a command holds wherever a text names it", () => {
  const allow = { effect: "allow", kind: "shell" };
  const deny = { effect: "deny", command: "touch **" };
  for (const text of TOUCHES) assertEquals(decide([allow, deny], text), "deny", text);
  for (const text of ["touch x", "/usr/bin/touch x", "t''ouch x", "'touch'"]) {
    for (const command of ["touch **", "/usr/bin/touch **", "/bin/t* **"]) {
      assertEquals(decide([allow, { effect: "deny", command }], text), "deny", text);
    }
  }
  // What is written in another way, or not there yet, is asked about.
  for (
    const text of ["$'\\x74ouch' x", "t${z}ouch x", "./touch x", "a=touc; ${a}h x", "cat x | sh"]
  ) {
    assertEquals(decide([allow, deny], text), "ask", text);
  }
  for (const text of ["ls -l", "echo 'touch x'", "cat touch", "timeout 5 ls"]) {
    assertEquals(decide([allow, deny], text), "allow", text);
  }
});

Deno.test("The words that rules judge are those that shells run", async () => {
  await using folder = await TempFolder.create();
  const program = `${folder.path}/show`;
  await Deno.writeTextFile(program, `#!/bin/sh\nprintf '<%s>' "$@" >> "$OUT"\necho >> "$OUT"\n`);
  await Deno.chmod(program, 0o755);
  const piece = fc.oneof(
    fc.constantFrom(
      ...`'"\\$\`(){}<>|&;\n\t #=~*?[]!^%@:,./-+aZ0é\u00a0`,
      "' '",
      '" "',
      "''",
      "\\\n",
    ),
    fc.constantFrom("'a b'", '"c d"', "$(x)", '"$x"', "\\ ", " b ", " -n", "{a,b}", "a=1", "\\\\"),
  );
  const text = fc.array(piece, { maxLength: 8 }).map((pieces) => `${program} ${pieces.join("")}`);
  const read = fc.sample(text, { numRuns: 20_000, seed: 7 }).flatMap((text) => {
    const found = readShell(text);
    return found.type === "simple" && found.words[0] === program
      ? [{ text, args: found.words.slice(1) }]
      : [];
  }).slice(0, 200);
  assert(read.length === 200, `${read.length} simple commands`);
  const expected = read.map(({ args }) => args.map((word) => `<${word}>`).join("") || "<>");
  for (const shell of ["bash", "dash", "zsh"]) {
    const OUT = `${folder.path}/${shell}`;
    // One text after the other, each as a script of its own.
    const lines = read.map(({ text }) => `'${text.replaceAll("'", "'\\''")}'`).join(" ");
    const script = `${folder.path}/all`;
    await Deno.writeTextFile(script, `for text in ${lines}; do ${shell} -c "$text"; done\n`);
    try {
      await new Deno.Command(shell, { args: ["-c", ":"] }).output();
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      continue; // not every machine has it
    }
    await new Deno.Command("sh", { args: [script], env: { OUT } }).output();
    const shown = (await Deno.readTextFile(OUT)).trimEnd().split("\n");
    for (const [index, { text }] of read.entries()) {
      assertEquals(shown[index], expected[index], `${shell}: ${text}`);
    }
  }
});
