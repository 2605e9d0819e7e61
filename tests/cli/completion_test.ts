import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { shellWord } from "../../src/base/shell_word.ts";
import { completionsOf } from "../../src/commands/completion.ts";
import { COMMANDS, OPTIONS } from "../../src/commands/mod.ts";
import { cliArguments, ipybox } from "../support/cli.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { atTerminal } from "../support/terminal.ts";

/** What can come after a beginning, whose last word is being typed: words, then paths. */
const CASES: readonly (readonly [typed: string, offered: string])[] = [
  ["ru", "run none"],
  ["--v", "--version none"],
  ["help appr", "approvals none"],
  ["help run ", "none"],
  ["policy ex", "explain none"],
  ["sessions s", "show none"],
  ["sessions show s", "none"],
  ["completion ", "bash zsh fish none"],
  ["run ", "files"],
  ["run --approve-s", "--approve-shell none"],
  ["run x.py --check ", "block warn off none"],
  ["run --approve al", "allow files"],
  ["run --approve=al", "allow files"],
  ["run --approve = al", "allow files"], // as bash splits it
  ["run --approve =", "ask allow deny files"],
  ["run --workspace ", "folders"],
  ["run -c ", "none"],
  ["mcp --placement d", "docker files"],
  ["register x --type s", "streamable_http sse none"],
  ["register x -- ", "files"],
  ["attach x", "none"],
  ["run --timeout x", "none"],
  ["nothing x", "none"],
];

Deno.test("ipybox completion knows all commands and options, and what can come after them", async () => {
  const offered = async (typed: string) => {
    const { words, paths } = await completionsOf(typed.split(" "), COMMANDS, OPTIONS);
    return [...words, paths].join(" ");
  };
  for (const [typed, expected] of CASES) assertEquals(await offered(typed), expected, typed);
  const all = [...Object.keys(COMMANDS), "help", "--help", "-h", "--version", "-V", "none"];
  assertEquals(await offered(""), all.join(" "));
  for (const [name, { load }] of Object.entries(COMMANDS)) {
    const names = [...Object.keys((await load()).options), "help"];
    const options = names.map((option) => `--${option}`);
    assertEquals(await offered(`${name} --`), [...options, "none"].join(" "));
  }
});

/** A definition of `ipybox` for shells, which runs this checkout's to complete, and shows its words else. */
const IPYBOX = `ipybox() { if [ "$1" = completion ]; then ${
  [Deno.execPath(), ...cliArguments].map(shellWord).join(" ")
} "$@"; else echo "got <$3> <$2>"; fi; }`;

Deno.test("bash completes words, files, and values after an equals sign", async () => {
  await using folder = await withScript("bash");
  await Deno.writeTextFile(`${folder.path}/my file.py`, "");
  await Deno.mkdir(`${folder.path}/myfolder`);
  await Deno.writeTextFile(`${folder.path}/ipybox`, IPYBOX);
  const { output } = await atTerminal(["bash", "--norc", "-i"], [
    ["", "!PS1='> '; source ./script; source ./ipybox; echo rea''dy\r"],
    ["ready\r\n", "ipybox run my\\ \t\r"],
    ["got <> <my file.py>", "ipybox run --workspace my\t\r"],
    ["got <myfolder/> <--workspace>", "ipybox run --approve=al\t\r"],
    ["got <> <--approve=allow>", "ipybox run --sandbox-config my\\ \t\r"],
    ["got <my file.py> <--sandbox-config>", "ipybox attach my\\ \t\r"],
    ["got <> <my >", "exit\r"],
  ], { cwd: folder.path });
  assert(output.trimEnd().endsWith("exit"), output);
});

testIf(await has("fish"), "there is no fish", {
  name: "fish completes words, files, and values after an equals sign",
  fn: async () => {
    await using folder = await withScript("fish");
    await Deno.writeTextFile(`${folder.path}/myfile.py`, "");
    const cases = [
      ["ipybox policy ex", "explain"],
      ["ipybox run my", "myfile.py"],
      ["ipybox run --approve=al", "--approve=allow"],
      ["ipybox run --approve my", "myfile.py"],
      ["ipybox register x -- my", "myfile.py"],
      ["ipybox attach my", ""],
    ] as const;
    const program = [
      "source ./script",
      `function ipybox; ${[Deno.execPath(), ...cliArguments].map(shellWord).join(" ")} $argv; end`,
      ...cases.map(([typed]) => `complete -C ${shellWord(typed)}; echo .`),
    ].join("\n");
    const answers = await output(["fish", "--no-config", "-c", program], folder.path);
    const words = answers.split(/^\.$/m).slice(0, -1).map((answer) =>
      answer.trim().split("\n").map((line) => line.split("\t")[0]).join(" ")
    );
    assertEquals(words, cases.map(([, offered]) => offered));
  },
});

testIf(await has("zsh"), "there is no zsh", {
  name: "zsh completes words, files, and values after an equals sign",
  fn: async () => {
    await using folder = await withScript("zsh");
    await Deno.writeTextFile(`${folder.path}/myfile.py`, "");
    await Deno.writeTextFile(`${folder.path}/ipybox`, IPYBOX);
    const { output } = await atTerminal(["zsh", "-f", "-i"], [
      [
        "",
        "!autoload -Uz compinit; compinit -u -D; source ./script; source ./ipybox; print rea''dy\r",
      ],
      ["ready\r\n", "ipybox policy ex\t\r"],
      ["got <> <explain>", "ipybox run --approve al\t\r"],
      ["got <allow> <--approve>", "ipybox run --approve=al\t\r"],
      ["got <> <--approve=allow>", "ipybox run my\t\r"],
      ["got <> <myfile.py>", "ipybox attach my\t\r"],
      ["got <> <my>", "exit\r"],
    ], { cwd: folder.path, env: { PS1: "> " } });
    assertEquals(output.includes("command not found"), false, output);
  },
});

Deno.test("ipybox completion names the shells that it knows", async () => {
  const { code, stderr } = await ipybox(["completion", "tcsh"]);
  assertEquals(code, 2);
  assertStringIncludes(stderr, 'No completion for "tcsh": use one of bash, zsh, fish');
});

/** A folder with the script for a shell. */
async function withScript(shell: string): Promise<TempFolder> {
  const { code, stdout, stderr } = await ipybox(["completion", shell]);
  assertEquals({ code, stderr }, { code: 0, stderr: "" });
  const folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/script`, stdout);
  return folder;
}

async function output([command = "", ...args]: readonly string[], cwd: string): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(command, { args, cwd }).output();
  const errors = new TextDecoder().decode(stderr);
  assert(success && errors === "", errors);
  return new TextDecoder().decode(stdout);
}

async function has(shell: string): Promise<boolean> {
  try {
    return (await new Deno.Command(shell, { args: ["-c", "true"] }).output()).success;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
