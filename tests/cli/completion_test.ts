import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { shellWord } from "../../src/base/shell_word.ts";
import { COMMANDS } from "../../src/commands/mod.ts";
import { ipybox } from "../support/cli.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { atTerminal } from "../support/terminal.ts";

/** What each shell must offer after a beginning, whose last word is being typed. */
const CASES: readonly (readonly [typed: string, offered: readonly string[]])[] = [
  ["ipybox ru", ["run"]],
  ["ipybox --v", ["--version"]],
  ["ipybox help appr", ["approvals"]],
  ["ipybox policy ex", ["explain"]],
  ["ipybox sessions s", ["show"]],
  ["ipybox completion ", ["bash", "fish", "zsh"]],
  ["ipybox run --approve-s", ["--approve-shell"]],
  ["ipybox run x.py --check ", ["block", "off", "warn"]],
  ["ipybox run --approve al", ["allow"]],
  ["ipybox mcp --placement d", ["docker"]],
  ["ipybox register x --type s", ["sse", "streamable_http"]],
  ["ipybox attach x", []],
  ["ipybox run --timeout x", []],
];

Deno.test("ipybox completion bash completes all commands and options in bash", async () => {
  await using folder = await withScript("bash");
  const listed = await Promise.all(
    Object.entries(COMMANDS).map(async ([name, { load }]) => {
      const names = ["help", ...Object.keys((await load()).options)];
      return [`ipybox ${name} --`, names.map((option) => `--${option}`).toSorted()] as const;
    }),
  );
  const all = [["ipybox ", [...Object.keys(COMMANDS), "help"].toSorted()] as const, ...listed];
  const program = [
    "source ./script",
    ...[...CASES, ...all].map(([typed]) =>
      `COMP_WORDS=(${typed}${
        typed.endsWith(" ") ? ' ""' : ""
      }); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); ` +
      '_ipybox; echo "${COMPREPLY[*]}"'
    ),
  ].join("\n");
  const lines = (await output(["bash", "--norc", "-c", program], folder.path)).split("\n");
  const offered = lines.slice(0, -1).map((line) =>
    line.split(" ").filter((word) => word !== "" && !/^-\w$/.test(word)).toSorted()
  );
  assertEquals(offered.slice(0, CASES.length), CASES.map(([, words]) => words));
  const [commands = [], ...options] = offered.slice(CASES.length);
  assertEquals(commands.filter((word) => !word.startsWith("-")), all[0]?.[1]);
  assertEquals(options, all.slice(1).map(([, words]) => words));
});

Deno.test("bash completes files for ipybox, and values after an equals sign", async () => {
  await using folder = await withScript("bash");
  await Deno.writeTextFile(`${folder.path}/my file.py`, "");
  await Deno.mkdir(`${folder.path}/myfolder`);
  const { output } = await atTerminal(["bash", "--norc", "-i"], [
    ["", "!PS1='> '; source ./script; ipybox() { echo \"got <$3> <$2>\"; }; echo rea''dy\r"],
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
  name: "ipybox completion fish completes ipybox's command line in fish",
  fn: async () => {
    await using folder = await withScript("fish");
    await Deno.writeTextFile(`${folder.path}/myfile.py`, "");
    const files: typeof CASES = [
      ["ipybox run my", ["myfile.py"]],
      ["ipybox run --approve my", ["myfile.py"]],
      ["ipybox register x -- my", ["myfile.py"]],
      ["ipybox attach my", []],
    ];
    const cases = [...CASES, ...files];
    const program = ["source ./script"].concat(
      cases.map(([typed]) => `complete -C ${shellWord(typed)}; echo .`),
    ).join("\n");
    const answers = await output(["fish", "--no-config", "-c", program], folder.path);
    const words = answers.split(/^\.$/m).slice(0, -1).map((answer) =>
      answer.split("\n").map((line) => line.split("\t")[0] ?? "").filter((word) => word !== "")
        .toSorted()
    );
    assertEquals(words, cases.map(([, offered]) => offered));
  },
});

testIf(await has("zsh"), "there is no zsh", {
  name: "ipybox completion zsh completes ipybox's command line in zsh",
  fn: async () => {
    await using folder = await withScript("zsh");
    await Deno.writeTextFile(`${folder.path}/myfile.py`, "");
    const { output } = await atTerminal(["zsh", "-f", "-i"], [
      [
        "",
        "!autoload -Uz compinit; compinit -u -D; source ./script; ipybox() echo got $*; print rea''dy\r",
      ],
      ["ready\r\n", "ipybox policy ex\t\r"],
      ["got policy explain", "ipybox run --approve al\t\r"],
      ["got run --approve allow", "ipybox run --approve=my\t\r"],
      ["got run --approve=myfile.py", "ipybox run x --check w\t\r"],
      ["got run x --check warn", "ipybox run my\t\r"],
      ["got run myfile.py", "ipybox register x -- my\t\r"],
      ["got register x -- myfile.py", "ipybox attach my\t\r"],
      ["got attach my\r\n", "ipybox --vers\t\r"],
      ["got --version", "exit\r"],
    ], { cwd: folder.path, env: { PS1: "> " } });
    assertEquals(output.includes("command not found"), false, output);
    assertStringIncludes(output, "got --version");
  },
});

Deno.test("ipybox completion names the shells that it knows", async () => {
  const { code, stderr } = await ipybox(["completion", "tcsh"]);
  assertEquals(code, 2);
  assertStringIncludes(stderr, 'No completion for "tcsh": there is one for bash, zsh, fish');
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
