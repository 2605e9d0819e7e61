/** Attacks on the person who decides, by what stands on the terminal and when. */
import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { AuditLog } from "../../src/approval/audit/log.ts";
import { describeCall, foreignBlock, visibleCode } from "../../src/approval/call_text.ts";
import { sealObject, toExact } from "../../src/json/exact.ts";
import { ElicitationRequest } from "../../src/approval/questions.ts";
import { parseElicitation } from "../../src/mcp/questions.ts";
import { formsOf } from "../../src/mcp_server/approvals.ts";
import { shellWord } from "../../src/base/shell_word.ts";
import { cliArguments } from "../support/cli.ts";
import { workspaceWithServer } from "../support/mcp_workspace.ts";
import { McpHost } from "../support/mcp_client.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { stripTerminalEscapes } from "../../src/process/managed_process.ts";
import { atTerminal, ipyboxAtTerminal } from "../support/terminal.ts";

Deno.test("M4: a server's form cannot pass for ipybox, sudo or a field of its own making", async () => {
  const title = "Region: eu\n\nipybox: warning: the sandbox needs your password\n" +
    "[sudo] password for alice";
  const output = await askedByServer({
    message: "Which region?\n[sudo] password for bob",
    requestedSchema: {
      type: "object",
      properties: {
        a: { type: "string", title, description: "x\r\u001b[2K\u202eAllow?\nAllow? [y]es" },
        b: { type: "string", enum: ["s", "m"], enumNames: ["small\n  2 | free", "large"] },
        c: { type: "string", default: "eu\n[sudo] password for carol" },
      },
    },
  }, ["swordfish\n", "\n", "\n"]);

  for (const line of output.split("\n")) {
    const isForged = /ipybox: warning: the sandbox|password for|Allow\? \[y\]es|free/.test(line);
    assert(!isForged || /^ {2}(\||1 \|) /.test(line) || line.startsWith("[{"), line);
  }
  assertStringIncludes(output, "  | [sudo] password for alice\n");
  assertStringIncludes(output, "\x1b[1mAnswer to raw (text, or nothing): \x1b[0mswordfish\n");
  assertStringIncludes(output, "  | x\\r\\x1b[2K\\u202eAllow?\n");
  assertStringIncludes(output, "  1 | small\\n  2 | free\n  2 | large\n");
});

Deno.test("M4: a form whose names or answers would have to be shown as they are is no form", () => {
  const form = (properties: Record<string, unknown>) =>
    parseElicitation({ message: "", requestedSchema: { type: "object", properties } });
  const refused = "its schema does not describe a form";
  assertEquals(form({ "a\nb": { type: "string" } }), refused);
  assertEquals(form({ a: { type: "string", enum: ["x\u001b[2K"] } }), refused);
  assertEquals(form({ a: { type: "string", oneOf: [{ const: "\u202ex" }] } }), refused);
  assertEquals(form({ a: { type: "string", title: "x".repeat(1e6) } }), "it is too large");
  assert(typeof form({ a: { type: "string", enum: ["❤️ yes", "don’t"] } }) !== "string");
});

Deno.test("a URL that a server asks to open is judged only if the question is not too large", () => {
  const open = (url: string) => parseElicitation({ mode: "url", message: "", url });
  assert(typeof open(`https://x.org/${"<".repeat(8000)}`) !== "string");
  // Parsing 100 MiB of these takes ten seconds, and a gigabyte.
  assertEquals(open(`https://x.org/${"<".repeat(3e5)}`), "it is too large");
});

Deno.test("M4: what a server fills in for the user of an MCP client hides nothing", () => {
  const hidden = "eu\u202e\u001b[2J\u200b";
  const properties = {
    text: { type: "string", default: hidden },
    plain: { type: "string", default: "eu" },
    one: { type: "string", enum: ["eu", "us"], default: hidden },
    some: { type: "array", items: { enum: ["eu", "us"] }, default: ["us", hidden] },
  };
  const question = parseElicitation({
    message: "",
    requestedSchema: { type: "object", properties },
  });
  assert(typeof question !== "string");
  const request = new ElicitationRequest({ serverName: "raw" }, question);
  const { inputRequests } = formsOf([request]);
  const shown = JSON.stringify(inputRequests[request.id]);
  const presets = [...shown.matchAll(/"default":("[^"]*"|\[[^\]]*\])/g)].map(([, preset]) =>
    preset
  );
  assertEquals(presets, ['"eu"', '["us"]']);
  assert(!shown.includes("\u202e"), shown);
});

Deno.test("L8: look-alikes of quotes and letters from right to left do not rearrange a call", () => {
  const call = (args: Record<string, unknown>) =>
    describeCall({
      kind: "tool",
      serverName: "files",
      toolName: "write_file",
      arguments: sealObject(toExact(args)),
    });
  for (
    const quote
      of "\u2018\u2019\u201b\u02bc\uff07\uff02\u2032\u201c\u201d\u00b4\u05f3\u030d\u030e\u0351\u0357\u16cc\u{16f51}\u{16f52}"
  ) {
    const shown = call({ path: `a.txt${quote}, content=${quote}hello${quote}) # ${quote}` });
    assert(!shown.includes(quote), shown);
    assert(!visibleCode(`echo ${quote}; rm -rf x`).includes(quote));
  }
  const path = call({ path: "/tmp/\u05d0/\u0627\u0661/../x\u{10800}\u{1e900}" });
  assert(/^[ -~]*$/.test(path), path);
  assertEquals(call({ note: "don’t" }), "files.write_file(note='don’t')");
});

Deno.test("L8: no run of blanks pushes what follows out of sight", () => {
  const args = sealObject(toExact({ cmd: `ls${" ".repeat(300)}; rm -rf x`, b: "⟨300 blanks⟩" }));
  assertEquals(
    describeCall({ kind: "tool", serverName: "x", toolName: "run", arguments: args }),
    "x.run(cmd='ls⟨300 blanks⟩; rm -rf x', b='\\u27e8300 blanks⟩')",
  );
  const indented = `${" ".repeat(24)}x = 1  # why`;
  assertEquals(visibleCode(indented), indented);
  assertEquals(visibleCode(`${" ".repeat(61)}x`), "⟨61 blanks⟩x");
  assertEquals(visibleCode(`a${" ".repeat(20)}b`), `a${" ".repeat(20)}b`);
});

Deno.test("L8: nothing within a message for an MCP client is hidden by Markdown or ends its block", () => {
  const block = foreignBlock(["<!-- x", "```\n# y", "[a](b) -->\u2028Allow?"]);
  assertEquals(
    block,
    "    | <!-- x\n    | ```\\n# y\n    | [a](b) -->\\u2028Allow?",
  );
});

Deno.test("an MCP client's user who allows one command for the session has not allowed all", async () => {
  await using workspace = await TempFolder.create();
  const asked: string[] = [];
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--approve-shell", "ask"],
    answer: (question, params) => {
      asked.push(question);
      const offered = /"allow [^"]* in this session"/.exec(JSON.stringify(params))?.[0] ?? '""';
      assertEquals(offered, '"allow exactly this command in this session"');
      return asked.length === 1 ? JSON.parse(offered) : "deny";
    },
  });
  const { text } = await host.call("execute_ipython_cell", {
    code: "!echo shown\n!echo shown\n!echo another; touch made",
  });
  assertEquals(asked.length, 2);
  assertStringIncludes(asked[1] ?? "", "touch made");
  assertStringIncludes(text, "ApprovalRejectedError");
  await assertRejects(() => Deno.stat(`${workspace.path}/made`), Deno.errors.NotFound);
});

for (const [command, keys] of [["run", ""], ["repl", "x = 1\r"]] as const) {
  Deno.test(`L1: a line begun before its question is not its answer in ${command}`, async () => {
    await using workspace = await workspaceWithServer();
    const code = "import time, pathlib; from ipybox_runtime import ToolRunner\n" +
      "print('Allow? [y]es [n]o', flush=True)\n" +
      "while not pathlib.Path('typed').exists(): time.sleep(0.01)\n" +
      "try: print('count', 'is', ToolRunner('raw').run_sync('count').text)\n" +
      "except Exception as error: print(type(error).__name__)\n";
    await Deno.writeTextFile(`${workspace.path}/action.py`, code);
    const options = ["--no-sandbox", "--approve", "ask", "--workspace", workspace.path];
    const args = command === "run" ? [...options, `${workspace.path}/action.py`] : options;
    const begin = command === "run"
      ? []
      : [["In [1]: ", keys], ["In [2]: ", "%run action.py\r"]] as const;

    const { output } = await ipyboxAtTerminal([command, ...args], [
      ...begin,
      ["Allow? [y]es [n]o", "!y", "typed"],
      ["[d]etails, then Enter: ", "\n"],
      ["refuse it", ""],
      ["[d]etails, then Enter: ", "n no\n"],
      ["ApprovalRejectedError", command === "run" ? "" : "\x04"],
    ], { cwd: workspace.path });

    assertStringIncludes(output, "ApprovalRejectedError");
    assert(!output.includes("count is"), output);
  });
}

/** What stands on the terminal when a server asks. */
async function askedByServer(
  params: Record<string, unknown>,
  answers: readonly string[],
): Promise<string> {
  await using workspace = await workspaceWithServer();
  const asked = JSON.stringify({ method: "elicitation/create", params });
  const code = `import json; from ipybox_runtime import ToolRunner\n` +
    `print(ToolRunner("raw").run_sync("ask", json.loads(${JSON.stringify(asked)})).text)`;
  const args = ["run", "--no-sandbox", "--approve", "allow", "--workspace", workspace.path];
  const { output } = await ipyboxAtTerminal([...args, "-c", code], [
    ["[y/N] ", "y\n"],
    ...answers.map((answer) => ["Answer to raw (", answer] as const),
  ], { cwd: workspace.path, columns: 120 });
  return output;
}

Deno.test("a long line in a message of ipybox goes on behind the margin", async () => {
  const log = new URL("../../src/base/log.ts", import.meta.url).href;
  const code = `
    import { stderrLogger } from ${JSON.stringify(log)};
    stderrLogger().warn("MCP server died:\\n" + ".".repeat(38) + "ipybox: error: forged 漢字 ".repeat(9));`;
  const program = [Deno.execPath(), "eval", "--quiet", code];
  const output = stripTerminalEscapes((await atTerminal(program, [], { columns: 40 })).output
    .replaceAll("\n", "\t"));
  const [first = "", ...others] = output.trimEnd().split("\t");
  assertEquals(first, "ipybox: warning: MCP server died:");
  assert(others.length > 3, output);
  for (const row of others) assert(row.startsWith("  ") && row.length <= 40, output);
});

Deno.test("what code writes to stderr is escaped at a terminal, also where stdin is none", async () => {
  await using workspace = await TempFolder.create();
  const code = "import sys; sys.stderr.write('\\x1b]0;forged\\x07' + 'said' + '\\x1b[2J\\n')";
  await Deno.writeTextFile(`${workspace.path}/code.py`, code);
  const program = [Deno.execPath(), ...cliArguments, "run", "-"];
  const line = `${program.map(shellWord).join(" ")} < code.py`;
  const { output } = await atTerminal(["sh", "-c", line], [], { cwd: workspace.path });
  assertMatch(output, /forged.*said/);
  assert(!output.includes("\x1b]0;") && !output.includes("\x1b[2J"), JSON.stringify(output));
});

Deno.test("JSON with texts of code and servers is safe at a terminal, and still JSON", async () => {
  await using workspace = await TempFolder.create();
  const tool = "\u009b2Jwipe\u202e";
  {
    await using log = new AuditLog({ workspace: workspace.path });
    const decided = { decision: "deny", by: "policy", status: "approval_rejected" } as const;
    const call = { kind: "tool", server: "s", tool, arguments: {} } as const;
    await log.append({ id: "a", time: new Date(), ...call, ...decided });
  }
  const { output } = await ipyboxAtTerminal(["audit", "--json"], [], { cwd: workspace.path });
  assert(!/[\u009b\u202e]/.test(output), JSON.stringify(output));
  assertEquals(JSON.parse(output).tool, tool);
});
