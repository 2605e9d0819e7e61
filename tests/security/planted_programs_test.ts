/** What code or a repository puts in the host's search path is run by nobody. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import marketplace from "../../.claude-plugin/marketplace.json" with { type: "json" };
import mcpb from "../../packaging/mcpb/manifest.json" with { type: "json" };
import { requireProgram } from "../../src/process/program.ts";
import { ipybox } from "../support/cli.ts";
import { npmRegistry } from "../support/npm_registry.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { testIf } from "../support/skip.ts";
import { runUnprivileged, whyNotUnprivileged } from "../support/unprivileged.ts";

const why = await whyNotUnprivileged();
const reportSchema = z.object({ ran: z.string(), said: z.record(z.string(), z.string()) });

testIf(why === undefined, why ?? "", {
  name: "the host runs no program that code put in the workspace, whatever PATH it has",
  async fn() {
    await using folder = await TempFolder.create();
    const fixture = new URL("../fixtures/planted_programs.ts", import.meta.url);
    const printed = await runUnprivileged(fileURLToPath(fixture), folder.path);

    const { ran, said } = reportSchema.parse(JSON.parse(printed));

    assertEquals(ran, "", JSON.stringify(said, null, 2));
    assertStringIncludes(said.plant ?? "", "planted");
    assertStringIncludes(said.sandbox ?? "", "bubblewrap works");
    // However many files with the names of secrets it leaves, the next session starts.
    assertStringIncludes(said["next session"] ?? "", '"text":"1"');
  },
});

testIf(why === undefined, why ?? "", {
  name: "the host runs no program of a workspace that code closes while it looks",
  async fn() {
    await using folder = await TempFolder.create();
    const fixture = new URL("../fixtures/closed_workspace.ts", import.meta.url);
    const reason = await runUnprivileged(fileURLToPath(fixture), folder.path);
    assertStringIncludes(reason, "executed code can write to");
  },
});

const infoSchema = z.object({ denoDir: z.string() });

Deno.test("the host runs no Deno and no sandbox runtime that code in the workspace can change", async () => {
  await using folder = await TempFolder.create();
  await using other = await TempFolder.create();
  const workspace = folder.path;
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  const { denoDir } = infoSchema.parse(JSON.parse(new TextDecoder().decode(stdout)));
  await Deno.symlink(denoDir, `${workspace}/cache`); // all of it would take gigabytes
  const run = async (cwd: string) =>
    await ipybox(["run", "-c", "print(1)"], { cwd, env: { DENO_DIR: `${workspace}/cache` } });

  const { code, stderr } = await run(workspace);
  assertEquals(code, 3);
  assertMatch(stderr.replaceAll(/\s+/g, " "), /cache\S* as the sandbox runtime: .*DENO_DIR/);
  const elsewhere = await run(other.path); // of a session before
  assertEquals(elsewhere.code, 3, elsewhere.stderr);
});

const NAMES = ["sh", "dirname", "env", "npx", "node", "deno", "ipybox", "docker"];
const registry = await npmRegistry();

Deno.test("what the plugin and the bundle start is named by its path", () => {
  for (const { mcpServers: { ipybox } } of marketplace.plugins) {
    assertEquals(ipybox.command, "/bin/sh");
    assertEquals(ipybox.args[0], "${CLAUDE_PLUGIN_ROOT}/plugin/start.sh");
  }
  assertEquals(mcpb.server.mcp_config.command, "/bin/sh");
});

Deno.test("the plugin runs no program of the project that the PATH leads to", async () => {
  await using project = await plantedProject();
  await using tools = await TempFolder.create();
  const own = async (name: string, script: string) =>
    await Deno.writeTextFile(`${tools.path}/${name}`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  await own("docker", "echo own docker");
  // It stands for the real one, which takes longer to start and says no more here.
  await own("deno", 'if [ "$1" = --version ]; then echo "deno 2.0.0"; else echo "own deno $*"; fi');
  const { path } = project;
  const start = (cwd: string, planted: string, ...args: string[]) =>
    startPlugin(args, { cwd, env: { PATH: `${planted}:${tools.path}:/usr/bin:/bin` } });
  const bin = "node_modules/.bin";
  for (
    const [cwd, planted] of [
      [path, `${path}/${bin}`],
      [path, `./${bin}`],
      [path, bin],
      [path, `${path}/link`],
      [`${path}/sub`, `${path}/${bin}`],
      [`${path}/sub`, `../${bin}`],
      [`${path}/${bin}`, ""],
      [`${path}/${bin}`, "."],
    ] as const
  ) {
    const deno = await start(cwd, planted, "deno@2.9.6", "mcp");
    assertMatch(deno, /^own deno run -A --config \S+ \S+\/cli\.ts mcp\n$/, `${cwd}: ${planted}`);
    assertEquals(await start(cwd, planted, "docker"), "own docker\n");
    assertEquals(await project.ran(), "", `${cwd}: ${planted}`);
  }
  await Deno.remove(`${tools.path}/deno`);
  await Deno.symlink(Deno.execPath(), `${tools.path}/deno`);
  assertMatch(await start(path, `${path}/${bin}`, "deno@2.9.6", "--version"), /^ipybox \d/);
  assertEquals(await project.ran(), "");
});

testIf(registry !== undefined, "no npm registry can be reached", {
  name: "the plugin and the bundle get Deno from npm without running what the project has",
  async fn() {
    await using project = await plantedProject();
    await using tools = await TempFolder.create();
    for (const name of ["npx", "node"]) {
      await Deno.symlink(await requireProgram(name), `${tools.path}/${name}`);
    }
    const env = { PATH: `${tools.path}:/usr/bin:/bin`, NPM_CONFIG_REGISTRY: `${registry}` };
    for (const cwd of [project.path, `${project.path}/sub`]) {
      const printed = await startPlugin(["deno@2.9.6", "--version"], { cwd, env });
      assertEquals(await project.ran(), "", cwd);
      assertMatch(printed, /^ipybox \d/, cwd);

      const { command, args } = mcpb.server.mcp_config;
      const started = args.slice(0, args.indexOf("deno@2.9.6") + 1);
      assert(started.length > 0);
      assertMatch(await run(command, [...started, "--version"], { cwd, env }), /^deno 2\.9\.6/);
      assertEquals(await project.ran(), "", cwd);
    }
  },
});

interface Start {
  readonly cwd: string;
  readonly env: Record<string, string>;
}

async function startPlugin(args: readonly string[], start: Start): Promise<string> {
  const script = new URL("../../plugin/start.sh", import.meta.url);
  return await run("/bin/sh", [fileURLToPath(script), ...args], start);
}

async function run(command: string, args: readonly string[], start: Start): Promise<string> {
  const { stdout } = await new Deno.Command(command, {
    args: [...args],
    stdin: "null",
    stderr: "inherit",
    signal: AbortSignal.timeout(120_000),
    ...start,
  }).output();
  return new TextDecoder().decode(stdout);
}

/** A cloned repository that has programs where package runners look for them. */
async function plantedProject() {
  const folder = await TempFolder.create();
  const { path } = folder;
  const marker = `${path}/ran`;
  const bin = `${path}/node_modules/.bin`;
  for (const made of [bin, `${path}/sub`]) await Deno.mkdir(made, { recursive: true });
  await Deno.symlink(bin, `${path}/link`);
  for (const name of NAMES) {
    const script = `#!/bin/sh\necho ${name} >> '${marker}'\nexit 1\n`;
    await Deno.writeTextFile(`${bin}/${name}`, script, { mode: 0o755 });
  }
  return {
    path,
    ran: () => Deno.readTextFile(marker).catch(() => ""), // nothing was run
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}
