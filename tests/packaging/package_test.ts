import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import config from "../../deno.json" with { type: "json" };
import marketplace from "../../.claude-plugin/marketplace.json" with { type: "json" };
import mcpb from "../../packaging/mcpb/manifest.json" with { type: "json" };
import npm from "../../packaging/npm/package.json" with { type: "json" };
import registry from "../../server.json" with { type: "json" };
import { SRT_PACKAGE, SRT_VERSION } from "../../src/sandbox/srt.ts";
import { PlainStdioTransport } from "../support/plain_stdio.ts";
import { Client } from "@modelcontextprotocol/client";
import { INITIALIZE } from "../support/initialize.ts";
import { untilNoneWith } from "../support/processes.ts";
import { runProgram } from "../support/program.ts";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { TempCache } from "../support/temp_cache.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { atTerminal } from "../support/terminal.ts";
import { programOf } from "../../src/process/program.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const DENO = "deno@2.9.6";

/** Starts an MCP server as a host would, and says what it is. */
async function toolsOf(command: string, args: readonly string[], cwd: string): Promise<string[]> {
  await using cache = await TempCache.create();
  const client = new Client({ name: "host", version: "1" });
  const env = { ...Deno.env.toObject(), ...cache.env };
  await client.connect(
    new PlainStdioTransport({ command: await programOf(command), args: [...args], env, cwd }),
  );
  try {
    return (await client.listTools()).tools.map(({ name }) => name);
  } finally {
    await client.close();
  }
}

Deno.test("manifests agree with each other on names and versions", () => {
  const [entry] = registry.packages;
  assertEquals(
    [registry.version, entry?.version, entry?.identifier, registry.name],
    [config.version, config.version, npm.name, npm.mcpName],
  );
  assertEquals(
    Object.values(npm.exports).map((files) => files.default.replace("/lib/", "/")),
    Object.values(config.exports).map((path) => path.replace(".ts", ".js")),
  );
  assertEquals(Object.keys(npm.exports), Object.keys(config.exports));
  assertEquals(`deno@${npm.dependencies.deno}`, DENO);
  assert(mcpb.server.mcp_config.args.includes(DENO));
  for (const { mcpServers: { ipybox } } of marketplace.plugins) {
    assert(ipybox.args.includes("docker") || ipybox.args.includes(DENO));
  }
});

testIf(Deno.build.os === "linux", "only Linux limits virtual memory so", {
  name: "the npm package names a limit on virtual memory that Deno cannot run with",
  fn: async () => {
    const starter = `${root}/packaging/npm/ipybox.mjs`;
    const limited = 'ulimit -v 12582912; exec node "$0" --version';
    const { code, stderr } = await runProgram("sh", ["-c", limited, starter]);
    assertEquals(code, 3, stderr);
    assertMatch(stderr, /^ipybox: the limit on virtual memory here is 12\.0 GiB \(ulimit -v\)/);
  },
});

Deno.test("`deno task package` makes only what it is asked for, and says what it can make", async () => {
  await using folder = await TempFolder.create();
  const make = (...args: string[]) =>
    runProgram(Deno.execPath(), ["task", "-q", "package", ...args, "--to", folder.path], {
      cwd: root,
    });
  const made = await make("js");
  assertEquals([made.code, made.stdout], [0, `${folder.path}/ipybox.js\n`], made.stderr);
  const there = await Array.fromAsync(Deno.readDir(folder.path));
  assertEquals(there.map(({ name }) => name), ["ipybox.js"]);
  const wrong = await make("pip");
  assertEquals(wrong.code, 2);
  assertEquals(wrong.stderr, 'Cannot make "pip": use js, npm, mcpb, or nothing for all\n');
});

Deno.test("`deno task package` makes a file, an npm package and a bundle that work", async (t) => {
  await using folder = await TempFolder.create();
  const made = await runProgram(Deno.execPath(), ["task", "-q", "package", "--to", folder.path], {
    cwd: root,
  });
  assertEquals(made.code, 0, made.stderr);
  assertMatch(
    made.stderr,
    /^Bundling the command line into ipybox\.js\n[^]*\nPacking the bundle for/m,
  );
  await using installed = await TempFolder.create();
  const project = installed.path;
  await install(`${folder.path}/ipybox.tgz`, project);

  await t.step("the file runs code in the sandbox, without the checkout", async () => {
    const { code, stdout, stderr } = await runProgram(Deno.execPath(), [
      ...["run", "-A", "--no-config", "--no-lock", `${folder.path}/ipybox.js`],
      ...["run", "-c", "print(6 * 7)"],
    ], { cwd: folder.path });
    assertEquals([code, stdout], [0, "42\n"], stderr);
    assert(!(await Deno.readTextFile(`${folder.path}/ipybox.js`)).includes(root));
  });

  await t.step(
    "the npm package brings Deno, passes exit codes on and ends by signals",
    async () => {
      const ipybox = `${project}/node_modules/.bin/ipybox`;
      assertEquals((await runProgram(ipybox, ["--version"])).stdout, `ipybox ${config.version}\n`);
      assertEquals((await runProgram(ipybox, ["nonsense"])).code, 2);

      await using cache = await TempCache.create();
      const server = new Deno.Command(ipybox, {
        args: ["mcp", "--workspace", folder.path],
        env: cache.env,
        stdin: "piped",
        stdout: "piped",
        stderr: "null",
      }).spawn();
      const writer = server.stdin.getWriter();
      await writer.write(new TextEncoder().encode(`${JSON.stringify(INITIALIZE)}\n`));
      const reader = server.stdout.getReader();
      assertMatch(new TextDecoder().decode((await reader.read()).value), /"serverInfo"/);
      const { stdout } = await runProgram("node", ["-p", "typeof process.execve"]);
      const program = basename(await Deno.readLink(`/proc/${server.pid}/exe`));
      assertEquals(program === "deno", stdout === "function\n", program);
      server.kill("SIGTERM");
      assertEquals((await server.status).code, 0);
      assertEquals((await reader.read()).done, true);
      await writer.close().catch(() => {}); // nobody reads it any more
    },
  );

  await t.step("Ctrl-C at a terminal reaches it once, so that it ends cleanly", async () => {
    await using cache = await TempCache.create();
    const code = "print('be' + 'gun', flush=True); import time; time.sleep(1000)";
    const ended = await atTerminal(
      [`${project}/node_modules/.bin/ipybox`, "run", "-c", code],
      [["begun", "\x03"]],
      { cwd: folder.path, env: cache.env },
    );
    assertEquals(ended.code, 130, ended.output);
    assertStringIncludes(ended.output, "ipybox: interrupted");
  });

  await t.step("a terminal that is closed ends it", async () => {
    await using cache = await TempCache.create();
    const { output } = await atTerminal(
      [`${project}/node_modules/.bin/ipybox`, "approvals", "--workspace", folder.path],
      [["Waiting for approval requests", null]],
      { cwd: folder.path, env: cache.env },
    );
    assertStringIncludes(output, "Waiting for approval requests");
    await untilNoneWith(`approvals\0--workspace\0${folder.path}`);
  });

  await t.step(
    "the npm package brings the module, with its types, for scripts of Deno",
    async () => {
      await Deno.writeTextFile(`${project}/answer.ts`, SCRIPT);
      await Deno.writeTextFile(
        `${project}/wrong.ts`,
        SCRIPT.replace("6 * 7", "${executor.nothing}"),
      );
      await Deno.mkdir(`${project}/files`);
      const deno = async (args: readonly string[]) =>
        await runProgram(`${project}/node_modules/.bin/deno`, args, { cwd: project });

      const { stderr } = await deno(["check", "--quiet", "wrong.ts"]);
      assertMatch(stderr, /Property 'nothing' does not exist/);
      assertEquals(stderr.match(/TS\d+/g)?.length, 1, stderr);
      const ran = await deno(["run", "-A", "answer.ts"]);
      assertEquals([ran.code, ran.stdout], [0, "42\n"], ran.stderr);
    },
  );

  await t.step("the bundle has the manifest that its tool accepted", async () => {
    const packed = `${folder.path}/ipybox-${config.version}.mcpb`;
    const unpacked = `${folder.path}/unpacked`;
    const { code, stderr } = await runProgram(testPython(), [
      ...["-m", "zipfile", "-e", packed, unpacked],
    ]);
    assertEquals(code, 0, stderr);
    const { command, args } = mcpb.server.mcp_config;
    const values = {
      __dirname: unpacked,
      "user_config.workspace": folder.path,
      "user_config.approve": "ask",
    };
    const filled = args.map((arg) => fill(arg, values));
    const tools = await toolsOf(command, filled, folder.path);
    for (const { name } of mcpb.tools) assert(tools.includes(name), name);
  });
});

testIf(await canCompile(), "Deno's runtime for executables cannot be downloaded", {
  name: "`deno task compile` makes an executable that runs code in the sandbox",
  fn: async () => {
    await using folder = await TempFolder.create();
    const made = await runProgram(Deno.execPath(), ["task", "-q", "compile"], { cwd: root });
    assertEquals(made.code, 0, made.stderr);
    const args = ["run", "-c", "print(6 * 7)"];
    const { code, stdout, stderr } = await runProgram(`${root}dist/ipybox`, args, {
      cwd: folder.path,
      env: { PATH: `${dirname(Deno.execPath())}:${Deno.env.get("PATH")}` },
    });
    assertEquals([code, stdout], [0, "42\n"], stderr);
  },
});

/** Whether Deno has, or gets, what it makes executables of. */
async function canCompile(): Promise<boolean> {
  await using folder = await TempFolder.create();
  await Deno.writeTextFile(`${folder.path}/nothing.js`, "");
  const args = ["compile", "--quiet", "--output", `${folder.path}/nothing`, "nothing.js"];
  return (await runProgram(Deno.execPath(), args, { cwd: folder.path })).code === 0;
}

Deno.test("each plugin of the marketplace starts ipybox, and nothing that the project planted", async (t) => {
  for (const { name, mcpServers: { ipybox } } of marketplace.plugins) {
    if (ipybox.args.includes("docker")) continue; // its image is built by hand
    await t.step(name, async () => {
      await using project = await TempFolder.create();
      await plantDeno(project.path);
      await using home = await TempFolder.create();
      await Deno.mkdir(`${home.path}/.config/ipybox`, { recursive: true });
      await Deno.writeTextFile(`${home.path}/.config/ipybox/sandbox.json`, "{}");
      const values = {
        CLAUDE_PLUGIN_ROOT: root.replace(/\/$/, ""),
        HOME: home.path,
        PWD: project.path,
      };
      const filled = ipybox.args.map((arg) => fill(arg, values));
      const tools = await toolsOf(ipybox.command, filled, project.path);
      assert(tools.includes("execute_ipython_cell"));
    });
  }
});

Deno.test("a plugin starts an ipybox that is installed, but none from the project's folder", async () => {
  await using project = await TempFolder.create();
  await using installed = await TempFolder.create();
  const say = (words: string) => `#!/bin/sh\necho ${words} "$@"\n`;
  await Deno.mkdir(`${project.path}/bin`);
  await Deno.writeTextFile(`${project.path}/bin/ipybox`, say("planted"), { mode: 0o755 });
  await Deno.writeTextFile(`${installed.path}/ipybox`, say("installed"), { mode: 0o755 });
  const start = async (folder: string) => {
    const path = `${folder}:${dirname(Deno.execPath())}:${Deno.env.get("PATH")}`;
    const args = [`${root}plugin/start.sh`, DENO, "--version"];
    return await runProgram("sh", args, { cwd: project.path, env: { PATH: path } });
  };

  assertEquals((await start(installed.path)).stdout, "installed --version\n");
  for (const planted of [`${project.path}/bin`, "bin", "./bin"]) {
    assertEquals((await start(planted)).stdout, `ipybox ${config.version}\n`, planted);
  }
});

/** Installs the npm package as its users do. */
async function install(packed: string, folder: string): Promise<void> {
  await Deno.writeTextFile(`${folder}/package.json`, "{}");
  const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", packed];
  const { code, stderr } = await runProgram("npm", args, { cwd: folder });
  assertEquals(code, 0, stderr);
}

const SCRIPT = `
import { CodeExecutor, type CodeExecutorOptions } from "@ipybox/ipybox";
import { loadPolicy } from "@ipybox/ipybox/policy";

const approval = await loadPolicy({ workspace: "files" });
const options: CodeExecutorOptions = { workspace: "files", approval };
await using executor = await CodeExecutor.start(options);
const { text } = await executor.execute(\`print(6 * 7)\`);
console.log(text?.trim());
`;

/** What `npx deno` would run in this folder, if it were not told to look elsewhere. */
async function plantDeno(folder: string): Promise<void> {
  await Deno.mkdir(`${folder}/node_modules/.bin`, { recursive: true });
  await Deno.mkdir(`${folder}/node_modules/deno`);
  const script = "#!/bin/sh\necho planted >&2\nexit 1\n";
  await Deno.writeTextFile(`${folder}/node_modules/deno/deno.sh`, script, { mode: 0o755 });
  await Deno.symlink("../deno/deno.sh", `${folder}/node_modules/.bin/deno`);
  await Deno.writeTextFile(
    `${folder}/node_modules/deno/package.json`,
    JSON.stringify({ name: "deno", version: DENO.split("@")[1], bin: "deno.sh" }),
  );
  await Deno.writeTextFile(
    `${folder}/package.json`,
    JSON.stringify({ dependencies: { deno: DENO.split("@")[1] } }),
  );
}

/** Replaces `${NAME}` as hosts do. */
function fill(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\$\{([^}]+)\}/g, (whole, name: string) => values[name] ?? whole);
}

Deno.test("the skill's front matter is what hosts read", async () => {
  const text = await Deno.readTextFile(`${root}plugin/skills/codeact/SKILL.md`);
  assertMatch(text, /^---\nname: codeact\ndescription: \S.{20,1000}\n---\n/);
  for (const [, path] of text.matchAll(/\]\((references\/[^)]+)\)/g)) {
    assert((await Deno.stat(`${root}plugin/skills/codeact/${path}`)).isFile);
  }
});

Deno.test("the image's build fetches the sandbox runtime that ipybox uses", async () => {
  const dockerfile = await Deno.readTextFile(`${root}Dockerfile`);
  assert(dockerfile.includes(`npm:${SRT_PACKAGE}@${SRT_VERSION}`));
  assert(dockerfile.includes(DENO));
});
