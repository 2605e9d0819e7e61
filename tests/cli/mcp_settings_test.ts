/** `ipybox mcp` asks about the settings in a workspace that do not count yet. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { endDurable, listSessions } from "../../src/executor/durable.ts";
import { readSandboxConfig } from "../../src/sandbox/config.ts";
import { CODE_NOTE, recordVariables } from "../../src/sandbox/own_variables.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { untilReady } from "../support/approval_page.ts";
import { browserTest } from "../support/browser.ts";
import { inThisProcess, type InThisProcessOptions } from "../support/command_io.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { rawServer } from "../support/mcp.ts";
import { eachEra, McpHost, type McpHostOptions } from "../support/mcp_client.ts";
import { RAW } from "../support/mcp_workspace.ts";
import { writeAcceptedPolicy } from "../support/policy.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { until } from "../support/wait.ts";

const POLICY = '{"rules": [{"effect": "allow", "server": "raw", "tool": "count"}]}';

/** A workspace in which code ran, and to which a variable and a policy were added since. */
async function changedWorkspace(): Promise<TempFolder> {
  const folder = await TempFolder.create();
  const workspace = folder.path;
  const registry = await ServerRegistry.open({ workspace });
  await registry.register("raw", rawServer());
  await recordVariables(workspace);
  await Deno.writeTextFile(`${workspace}/${CODE_NOTE}`, "");
  await Deno.writeTextFile(`${workspace}/.env`, "KERNEL_ENV_ADDED=secret value\n");
  await Deno.writeTextFile(`${workspace}/.ipybox/policy.json`, POLICY);
  return folder;
}

/** Prints the variable, and the count of a tool that the policy allows. */
const CODE = `${RAW}
import os
try:
    count = raw.run_sync("count").text
except Exception as error:
    count = type(error).__name__
print(os.environ.get("ADDED"), count)`;

interface Seen {
  readonly text: string;
  readonly questions: readonly string[];
  readonly stderr: string;
}

interface SessionOptions extends Partial<McpHostOptions> {
  /** More cells, which are sent at the same time. */
  readonly cells?: readonly string[];
}

/** Runs a cell in a new session, whose client's user answers questions in turn. */
async function session(
  workspace: string,
  answers: readonly (string | null | undefined)[],
  { args = [], cells = [], ...options }: SessionOptions = {},
): Promise<Seen> {
  const questions: string[] = [];
  await using host = await McpHost.start({
    args: ["--workspace", workspace, "--no-sandbox", ...args],
    answer: async (question) => {
      questions.push(question);
      await new Promise((resolve) => setTimeout(resolve, 500)); // as a person does
      return answers[questions.length - 1];
    },
    ...options,
  });
  const texts = await Promise.all(
    [CODE, ...cells].map(async (code) => (await host.call("execute_ipython_cell", { code })).text),
  );
  return { text: texts.join("\n"), questions, stderr: host.stderr };
}

Deno.test("ipybox mcp asks the user of a client of each era about settings, once for cells that come meanwhile, and they count", () =>
  eachEra(async (kind) => {
    await using folder = await changedWorkspace();
    // Without a session of its own, each cell of the newer era would open one.
    const cells = kind === "2.x legacy"
      ? [1, 2].map((n) => `import os\nprint(os.environ["ADDED"], ${n})`)
      : [];
    const answers = ["allow", "allow"];
    const { text, questions, stderr } = await session(folder.path, answers, { kind, cells });
    const texts = ["secret value 1", ...cells.map((_, i) => `secret value ${i + 1}`)];
    assertEquals([text, questions.length], [texts.join("\n"), 2]);
    const [variables = "", policy = ""] = questions;
    assertMatch(variables, /\.env has variables .*\(1\):\n\n {4}\| KERNEL_ENV_ADDED\n\nLet MCP/);
    assertEquals(variables.includes("secret value"), false);
    assertMatch(policy, /policy\.json says:\n\n {4}\| \{\n[^]*"tool": "count"[^]*\n\nAccept it\?$/);
    assertEquals(/ipybox trust/.test(stderr), false, stderr);
  }));

const NOT_IN_FORCE = "[Not in force, as the user has not accepted it: ";

/** Whether the code ran without the settings, and the model learns which these are. */
function assertWithout(text: string, files: string): void {
  assertMatch(text, /^None Approval(?:Rejected|Unavailable)Error\n/);
  assertStringIncludes(text, `${NOT_IN_FORCE}${files}]`);
}

/** Asks as the next session does, but as `ipybox run`, which ends for want of a Python. */
async function ask(workspace: string, answers: NonNullable<InThisProcessOptions["answers"]>) {
  const args = ["run", "-c", "1", "--python", "/bin/false"];
  const { code, stderr } = await inThisProcess(args, { workspace, answers });
  assertEquals(code, 3, stderr);
}

Deno.test("ipybox mcp goes on without refused settings, and asks again once they have changed", async () => {
  await using folder = await changedWorkspace();
  // The third question is that of the tool call.
  const first = await session(folder.path, ["deny", "deny", "deny"]);
  assertEquals(first.questions.length, 3);
  assertWithout(first.text, ".env, .ipybox/policy.json");
  assertEquals(first.stderr.match(/ipybox trust/g)?.length, 2, first.stderr);

  await ask(folder.path, []);
  await Deno.writeTextFile(`${folder.path}/.env`, "KERNEL_ENV_ADDED=another\n");
  const next = await session(folder.path, ["allow", "allow once"]);
  assertEquals(next.questions.length, 2);
  assertStringIncludes(next.text, "another 1");
  assertStringIncludes(next.text, `${NOT_IN_FORCE}.ipybox/policy.json]`);
});

Deno.test("ipybox mcp goes on without settings that nobody can be asked about, and asks until they are accepted", async () => {
  await using folder = await changedWorkspace();
  const ways: readonly Partial<McpHostOptions>[] = [
    { answer: undefined }, // without dialogs, and no page is open
    { answer: () => undefined }, // which cancels
    { args: ["--approve", "deny"] }, // with which a policy is not read
  ];
  for (const way of ways) {
    const { text, questions, stderr } = await session(folder.path, [], way);
    const files = way.args === undefined ? [".env", ".ipybox/policy.json"] : [".env"];
    assertEquals(questions, []);
    assertWithout(text, files.join(", "));
    assertEquals(stderr.match(/ipybox trust/g)?.length, files.length, stderr);
  }
  await ask(folder.path, [["use them? [y/N]", "y"], ["Accept it? [y/N]", "y"]]);
  await ask(folder.path, []);
});

Deno.test("ipybox mcp asks about changed sandbox settings, and uses those that count", async () => {
  await using folder = await TempFolder.create();
  await Deno.mkdir(`${folder.path}/.ipybox`);
  let path = `${folder.path}/.ipybox/sandbox.json`;
  const write = async (folder: string) =>
    await Deno.writeTextFile(path, JSON.stringify({ filesystem: { allowRead: [folder] } }));
  const start = async (answer: string) => {
    const questions: string[] = [];
    await using host = await McpHost.start({
      args: ["--workspace", folder.path, "--sandbox-config", path],
      answer: async (question) => {
        questions.push(question);
        await new Promise((resolve) => setTimeout(resolve, 500));
        return answer;
      },
    });
    const code = `import os\nprint([os.path.exists(p) for p in ("${one.path}", "${two.path}")])`;
    const text = await host.execute(code);
    return [questions.length, text];
  };
  await using one = await TempFolder.create();
  await using two = await TempFolder.create();
  await write(one.path);
  await readSandboxConfig(path, { workspace: folder.path }); // as a session did before
  await write(two.path);
  const [asked, text] = await start("deny");
  assertEquals([asked, String(text).split("\n")[0]], [1, "[True, False]"]);
  assertStringIncludes(
    String(text),
    "[Not in force, as the user has not accepted it: .ipybox/sand",
  );
  path = `${folder.path}/sandbox.json`; // code could have written this one
  await write(two.path);
  const [questions, last] = await start("allow");
  assertEquals([questions, String(last).split("\n")[0]], [1, "[False, True]"]);
});

Deno.test("a server that continues a session asks about settings that have changed since", async () => {
  await using folder = await TempFolder.create();
  await using cache = await TempCache.create();
  const workspace = folder.path;
  await (await ServerRegistry.open({ workspace })).register("raw", rawServer());
  await writeAcceptedPolicy(workspace, POLICY.replace("count", "none"));
  const way = { args: ["--session", "work"], env: cache.env };
  try {
    const first = await session(workspace, ["allow once"], way);
    assertEquals([first.questions.length, first.text], [1, "None 1"]);
    await Deno.writeTextFile(`${workspace}/.ipybox/policy.json`, POLICY);
    const second = await session(workspace, ["allow"], way);
    assertEquals(second.questions.length, 1);
    assertMatch(
      second.questions[0] ?? "",
      /changed since you accepted it:[^]*\| -.*"none"[^]*\| \+.*"count"/,
    );
    assertMatch(second.text, /^None \d\n[^]*Session work continues/);
  } finally {
    for (const { id } of await listSessions(workspace)) await endDurable(id);
  }
});

Deno.test("over HTTP, no client is asked about settings, and only what was accepted counts", async () => {
  await using folder = await changedWorkspace();
  await using server = await HttpMcp.start(["--workspace", folder.path, "--no-sandbox"]);
  const questions: string[] = [];
  await using host = await McpHost.join(server.address, {
    answer: (question) => {
      questions.push(question);
      return "allow once";
    },
  });
  assertEquals(await host.execute(CODE), "None 1");
  assertEquals(questions.length, 1);
  assertMatch(questions[0] ?? "", /^Allow this tool call/);
  assertEquals(server.stderr.match(/ipybox trust/g)?.length, 2, server.stderr);
});

browserTest(
  "Settings are asked about on the approval page where the client has no dialog",
  async (browser) => {
    await using folder = await changedWorkspace();
    await using host = await McpHost.start({
      args: ["--workspace", folder.path, "--no-sandbox", "--page"],
    });
    const link = /http:\/\/127\.0\.0\.1:\d+\/page\/open\?code=\S+/;
    await until("the page's link is printed", () => link.test(host.stderr));
    const page = await browser.open(host.stderr.match(link)?.[0] ?? "");
    const cell = host.execute(CODE);
    for (const shown of ["KERNEL_ENV_ADDED", '"tool": "count"']) {
      await page.getByText(shown).first().waitFor();
      await untilReady(page);
      await page.keyboard.press("y");
    }
    assertEquals(await cell, "secret value 1");
    assertEquals(browser.problems, []);
  },
);
