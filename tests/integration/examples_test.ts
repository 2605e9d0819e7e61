/** The examples run as they stand, print what they should, and leave nothing behind. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { namedProgram } from "../../src/process/program.ts";
import type { ProgramEnd } from "../../src/process/run_program.ts";
import { fileHosts } from "../../src/python/file_hosts.ts";
import { readIndexSettings } from "../../src/python/indexes.ts";
import { cliArguments, ipybox } from "../support/cli.ts";
import { CELL } from "../support/interop.ts";
import { npmServer } from "../support/mcp.ts";
import { writeNpx } from "../support/npx.ts";
import { runProgram } from "../support/program.ts";
import { testPython } from "../support/python.ts";
import { pythonServers } from "../support/python_servers.ts";
import { ScriptedModel } from "../support/scripted_model.ts";
import { testIf } from "../support/skip.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { atTerminal, type TerminalEnd } from "../support/terminal.ts";
import { makeWheels } from "../support/wheels.ts";

const examples = fileURLToPath(new URL("../../examples/", import.meta.url));

function commandOf(name: string): string[] {
  return [Deno.execPath(), "run", "-A", "--quiet", `${examples}${name}`];
}

/** An example's folder for temporary files, and what it needs of the environment. */
interface Place {
  readonly temporary: TempFolder;
  readonly env?: Readonly<Record<string, string>>;
}

/** Runs an example to its end, which must be good. */
async function run(
  { temporary, env }: Place,
  name: string,
  ...args: readonly string[]
): Promise<ProgramEnd> {
  const [command = "", ...all] = [...commandOf(name), ...args];
  const variables = { NO_COLOR: "1", TMPDIR: temporary.path, ...env };
  const end = await runProgram(command, all, { env: variables });
  assertEquals(end.code, 0, end.stdout + end.stderr);
  return end;
}

/** Runs an example that leaves nothing behind. */
async function runAlone(name: string, ...args: readonly string[]): Promise<ProgramEnd> {
  await using temporary = await TempFolder.create();
  await using programs = await TempFolder.create();
  await writeNpx(programs.path);
  const env = { PATH: `${programs.path}:${Deno.env.get("PATH")}` };
  const end = await run({ temporary, env }, name, ...args);
  assertEquals(await temporary.list(), []);
  return end;
}

Deno.test("examples/README.md names each example", async () => {
  const table = await Deno.readTextFile(`${examples}README.md`);
  const rows = [...table.matchAll(/^\| \[`(.*?)`\]\(\1\)/gm)].map(([, name]) => name ?? "");
  const names = await Array.fromAsync(Deno.readDir(examples), ({ name }) => name);
  assertEquals(rows.toSorted(), names.filter((name) => /\.(ts|py)$/.test(name)).toSorted());
});

// examples/quickstart.ts is run by tests/permissions/.
Deno.test("examples/approvals.ts allows reading, refuses writing and says why", async () => {
  const { stdout, stderr } = await runAlone("approvals.ts");

  assertEquals(
    stdout,
    "[FILE] report.txt\nRefused: this application only reads\n['report.txt']\n",
  );
  assertStringIncludes(stderr, "Allowed files.list_directory(path='/");
  assertStringIncludes(stderr, "Refused files.write_file(path='/");
});

Deno.test("examples/policy.ts is asked about what its file leaves open", async () => {
  const { stdout, stderr } = await runAlone("policy.ts");

  assertMatch(stdout, /^hello\nRefused: .*policy\.json rule 2: files stay where they are\n$/);
  assertMatch(stderr, /^allow by approver: .*\nallow by policy: .*\ndeny by policy: .*$/m);
  await using workspace = await TempFolder.create();
  const file = `${examples}policy.json`;
  const tested = await ipybox(["policy", "test", "--file", file, "--workspace", workspace.path]);
  assertEquals(tested.code, 0, tested.stderr);
});

Deno.test("examples/streaming.ts shows output as it comes, and ends code in three ways", async () => {
  const { stdout } = await runAlone("streaming.ts");

  assertMatch(
    stdout,
    /^step 0\n[^]*step 3\nLeft the loop\. The variables were kept: step is \d+\.\n/,
  );
  assertStringIncludes(
    stdout,
    'exceeded timeout of 2.00s (approval wait excluded). It began with "step 0"',
  );
  assertStringIncludes(stdout, "The user pressed Stop. The variables were kept.\n");
});

Deno.test("examples/data_analysis.ts makes a chart and a report of a CSV file", async () => {
  await using temporary = await TempFolder.create();

  const { stdout } = await run({ temporary }, "data_analysis.ts");

  const rows = "| South | 400 |\n| North | 320 |\n";
  assertStringIncludes(stdout, rows);
  const [, folder = ""] = /^Report: (.*)\/report\.md$/m.exec(stdout) ?? [];
  assertStringIncludes(await Deno.readTextFile(`${folder}/report.md`), rows);
  const [, shown = ""] = /^Shown: (.*\.png) \(image\/png\)$/m.exec(stdout) ?? [];
  for (const picture of [shown, `${folder}/chart.png`]) {
    const start = (await Deno.readFile(picture)).subarray(1, 4);
    assertEquals(new TextDecoder().decode(start), "PNG");
  }
});

Deno.test("examples/packages.ts installs a package that code imports", async () => {
  await using temporary = await TempFolder.create();
  await using wheels = await TempFolder.create();
  await using cache = await TempCache.create();
  await makeWheels(wheels.path, [{
    name: "humanize",
    version: "4.15.0",
    files: { "humanize.py": "def naturalsize(size): return f'{size / 1e6:.1f} MB'" },
  }]);
  const env = { ...cache.env, PIP_NO_INDEX: "1", PIP_FIND_LINKS: wheels.path };

  const { stdout } = await run({ temporary, env }, "packages.ts");

  assertMatch(stdout, /^Installed humanize 4\.15\.0.*\n123\.5 MB\n.*humanize.*\n$/);
  assertEquals(await temporary.list(), []);
});

const python = { executable: testPython() };
const uv = namedProgram(`${dirname(python.executable)}/uv`);
const { indexes } = await readIndexSettings(python, { uv });
/** A host that answers here; none if the package index does not. */
const [host] = await fileHosts(indexes, "six");

testIf(host !== undefined, "the package index cannot be reached", {
  name: "examples/allowed_domain.ts reaches the host that it allows, and no other",
  fn: async () => {
    const { stdout } = await runAlone("allowed_domain.ts", host ?? "");

    assertMatch(
      stdout,
      /^\S+ answered with status \d+\nnot-allowed\.example cannot be reached: .*403/,
    );
  },
});

Deno.test("examples/sandboxed_server.ts reads what its server was given, and nothing else", async () => {
  const { stdout } = await runAlone("sandboxed_server.ts");

  assertMatch(stdout, /^\/.*\/texts\/poem\.txt has 5 words\nThe server failed: .*ENOENT.*\n$/);
});

Deno.test("examples/durable_session.ts continues in a second program", async () => {
  await using temporary = await TempFolder.create();
  const first = await run({ temporary }, "durable_session.ts");
  const [, id = ""] = /durable_session\.ts ([0-9a-f]+)\n$/.exec(first.stdout) ?? [];

  const second = await run({ temporary }, "durable_session.ts", id);

  const epochs = "Epoch 1: loss 0.5\nEpoch 2: loss 0.25\nEpoch 3: loss 0.125\n";
  assertEquals(second.stdout, `${epochs}Variables are kept, too: loss is 0.125.\n`);
  assertEquals(await temporary.list(), []);
});

Deno.test("examples/pool_server.ts answers each request from a fresh kernel", async () => {
  await using temporary = await TempFolder.create();
  const [command = "", ...args] = commandOf("pool_server.ts");
  await using child = new Deno.Command(command, {
    args,
    env: { TMPDIR: temporary.path },
    stdout: "piped",
  }).spawn();
  const output = child.stdout.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]();
  const { value: line = "" } = await output.next();
  const [, token, url = ""] = /Bearer ([\w-]+)" .* (http:\S+)\n$/.exec(line) ?? [];
  const send = async (body: string, authorization = `Bearer ${token}`) => {
    const response = await fetch(url, { method: "POST", body, headers: { authorization } });
    return [response.status, await response.text()];
  };

  assertEquals(await send("6 * 7", "Bearer guess"), [401, "Send the token\n"]);
  assertEquals(await send("x = 6 * 7\nx"), [200, "42\n"]);
  const [status, text] = await send("x");
  assertEquals(status, 422);
  assertStringIncludes(`${text}`, "NameError: name 'x' is not defined");
  child.kill("SIGTERM");
  assertEquals(await output.next(), { value: undefined, done: true });
  assertEquals((await child.status).code, 0);
  assertEquals(await temporary.list(), []);
});

Deno.test("examples/saved_actions.ts uses in one session what another one saved", async () => {
  const { stdout } = await runAlone("saved_actions.ts");

  assertEquals(stdout, "writing\n");
});

/** What a model does with the agents' task, whose user allows each step. */
async function converse(
  agent: readonly string[],
  variables: (model: ScriptedModel) => Record<string, string>,
): Promise<TerminalEnd> {
  await using temporary = await TempFolder.create();
  await using programs = await TempFolder.create();
  const { IPYBOX_PYTHON = "", ...others } = Deno.env.toObject();
  const kept = ["DENO_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];
  const settings = [["IPYBOX_PYTHON", IPYBOX_PYTHON], ...kept.map((name) => [name, others[name]])]
    .filter(([, value]) => value !== undefined).map(([name, value]) => `${name}='${value}'`);
  const line = [...settings, `'${Deno.execPath()}'`, ...cliArguments].join(" ");
  await Deno.writeTextFile(`${programs.path}/ipybox`, `#!/bin/sh\n${line} "$@"\n`, { mode: 0o755 });
  const server_params = npmServer("server-everything", "stdio");
  const code = `from mcptools.everything import get_structured_content
print(get_structured_content.run(location="Chicago").temperature)`;
  await using model = ScriptedModel.play([
    { tool: "register_mcp_server", args: { server_name: "everything", server_params } },
    { tool: CELL, args: { code } },
  ]);
  const env = {
    ...variables(model),
    ANTHROPIC_API_KEY: "none",
    PATH: `${programs.path}:${others.PATH}`,
    TMPDIR: temporary.path,
  };
  const end = await atTerminal(agent, [
    ["Register the MCP server", ""],
    ["[y/N]", "y\n"],
    ["everything.get-structured-content", ""],
    ["[y/N]", "y\n"],
  ], { env });
  model.check();
  assertEquals(end.code, 0, end.output);
  assertMatch(end.output, /Done\.\s*$/);
  assertEquals(model.seen.map(({ text }) => text.split(":")[0]), ["Registered everything", "36"]);
  assertEquals(await temporary.list(), []);
  return end;
}

Deno.test("examples/ai_sdk.ts lets its user decide on the calls of its model's code", async () => {
  await converse(commandOf("ai_sdk.ts"), ({ url }) => ({ ANTHROPIC_BASE_URL: `${url}/v1` }));
});

const servers = await pythonServers();

testIf("python" in servers, "missing" in servers ? servers.missing : "", {
  name: "examples/agent.py lets its user decide on the calls of its model's code",
  fn: async () => {
    const interpreter = "python" in servers ? servers.python : "";
    await converse(
      [interpreter, `${examples}agent.py`],
      ({ url }) => ({ ANTHROPIC_BASE_URL: url }),
    );
  },
});
