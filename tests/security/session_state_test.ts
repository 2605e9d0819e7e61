/**
 * What the host keeps for sessions over HTTP, against the sessions' code and the servers that it calls:
 * those that may write to a session's folder, and those whose settings name the workspace around it.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { makeSessionFolders } from "../../src/mcp_server/http/session_folders.ts";
import { basename } from "node:path";
import { readAuditLog, verifyAuditLog } from "../../src/approval/audit/reader.ts";
import type { StdioServerParams } from "../../src/mcp/params.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { filesBelow } from "../support/files.ts";
import { ipybox } from "../support/cli.ts";
import { HttpMcp } from "../support/http_mcp.ts";
import { McpHost } from "../support/mcp_client.ts";
import { RAW } from "../support/mcp_workspace.ts";
import { rawServer } from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

const script = new URL("../fixtures/mcp/prober.py", import.meta.url).pathname;

/** The server that evaluates Python expressions. */
function prober(...args: string[]): StdioServerParams {
  return { command: testPython(), args: [script, ...args] };
}

/** A session over HTTP, and how its code has servers evaluate expressions. */
class Tenant implements AsyncDisposable {
  private constructor(
    readonly host: McpHost,
    /** Its folder. */
    readonly folder: string,
  ) {}

  static async join(server: HttpMcp): Promise<Tenant> {
    const host = await McpHost.join(server.address, {});
    const folder = /'(.*)'/.exec(await host.execute("import os; os.getcwd()"))?.[1] ?? "";
    assertMatch(folder, /\/sessions\//);
    return new Tenant(host, folder);
  }

  async probe(server: string, probes: Record<string, string>): Promise<string> {
    return await this.host.execute(`
from ipybox_runtime import ToolRunner
try:
    print(ToolRunner("${server}").run_sync("attempt", {"probes": ${JSON.stringify(probes)}}).text)
except Exception as error:
    print(error)`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.host[Symbol.asyncDispose]();
  }
}

async function workspaceWith(servers: Record<string, StdioServerParams>): Promise<TempFolder> {
  const workspace = await TempFolder.create();
  const registry = await ServerRegistry.open({ workspace: workspace.path });
  for (const [name, params] of Object.entries(servers)) await registry.register(name, params);
  return workspace;
}

Deno.test("what the host keeps for sessions over HTTP is out of reach of their code and servers", async (t) => {
  const step = stepsOf(t);
  await using outside = await TempFolder.create();
  await using elsewhere = await TempFolder.create();
  const around = `${elsewhere.path}/settings.json`;
  const { command, args = [] } = prober();
  await using workspace = await workspaceWith({
    raw: rawServer(),
    files: prober("${workspaceFolder}"),
    closed: { ...prober(), sandbox: ".ipybox/closed.json" },
    code: { command: testPython(), args: ["${workspaceFolder}/.ipybox/server.py"] },
    opened: { command, args, sandbox: around },
    srt: { command: "srt", args: ["--settings", around, command, ...args] },
  });
  const filesystem = { allowRead: [workspace.path], allowWrite: [workspace.path, "."] };
  await Deno.writeTextFile(around, JSON.stringify({ filesystem }));
  await Deno.writeTextFile(`${workspace.path}/shown.txt`, "shown");
  const settings = (folder: string) => JSON.stringify({ filesystem: { allowWrite: [folder] } });
  await Deno.writeTextFile(`${workspace.path}/.ipybox/closed.json`, settings("."));
  const trusted = await ipybox(["trust", "--yes"], { cwd: workspace.path });
  assertEquals(trusted.code, 0, trusted.stderr);
  const sessions: string[] = [];
  {
    await using server = await HttpMcp.start([
      ...["--workspace", workspace.path, "--approve", "allow", "--sandbox-config", around],
    ]);
    await using other = await Tenant.join(server);
    await using tenant = await Tenant.join(server);
    const { folder } = tenant;

    await step("their folders have no audit log", async () => {
      for (const { host, folder } of [tenant, other]) {
        sessions.push(basename(folder));
        await host.execute(`${RAW}raw.run_sync("count").text`);
        const files = [...(await filesBelow(folder)).keys()];
        assertEquals(files.filter((path) => path.includes("audit")), []);
      }
    });

    await step("no settings open the state of the workspace around them", async () => {
      const probes = {
        shown: `open("${workspace.path}/shown.txt").read()`,
        own: `write("${tenant.folder}/own")`,
        state: `open("${workspace.path}/.ipybox/mcp.json").read()`,
        others: `os.listdir("${other.folder}")`,
        list: `os.listdir("${workspace.path}/.ipybox")`,
        "own state": `write("${tenant.folder}/.ipybox/planted")`,
      };

      const code = Object.entries(probes).map(([name, probe]) =>
        `attempt("${name}", lambda: ${probe})`
      );
      const inKernel = await tenant.host.execute(`
import json
found = {}
def write(path):
    with open(path, "w") as file:
        file.write("changed")
    return "written"
def attempt(name, action):
    try:
        found[name] = str(action())
    except OSError as error:
        found[name] = f"! {type(error).__name__}"
${code.join("\n")}
print(json.dumps(found))`);

      for (
        const [name, said] of [
          ["opened", await tenant.probe("opened", probes)],
          ["srt", await tenant.probe("srt", probes)],
          ["kernel", inKernel],
        ] as const
      ) {
        assertMatch(said, /^\{/);
        const outcomes = JSON.parse(said.split("\n")[0] ?? "");
        for (const key of ["state", "others", "own state"]) {
          assertMatch(outcomes[key], /^! /, `${name}: ${key}`);
          delete outcomes[key];
        }
        assertEquals(outcomes, { shown: "shown", own: "written", list: "[]" }, name);
      }
      await Deno.stat(`${tenant.folder}/own`); // and not only in the server's view of it
    });

    await step(
      "what servers write to its .ipybox decides on no server's code or sandbox",
      async () => {
        // As a server does that may write to ${workspaceFolder}, and is called by the tenant's code.
        const plant = (name: string, text: string) =>
          `open("${folder}/.ipybox/${name}", "w").write(${JSON.stringify(text)})`;
        const planted = await tenant.probe("files", {
          settings: plant("closed.json", settings(outside.path)),
          code: plant("server.py", await Deno.readTextFile(script)),
        });

        assertMatch(planted, /^\{"settings": "\d+", "code": "\d+"\}/);
        const closed = await tenant.probe("closed", {
          outside: `write("${outside.path}/escaped")`,
          inside: `write("${folder}/written")`,
        });
        assertMatch(closed, /^\{"outside": "! \w+", "inside": "written"\}/); // by the workspace's settings
        const code = await tenant.probe("code", { ran: `write("${outside.path}/ran")` });
        assertMatch(
          code,
          /was not started: its files in the workspace.* have changed since the session began/,
        );
        assertEquals([...(await filesBelow(outside.path)).keys()], []);
      },
    );
  }

  await step(
    "what they did is in the workspace's audit log, which outlives their folders",
    async () => {
      const folders = await makeSessionFolders(workspace.path);
      await Deno.remove(folders, { recursive: true }); // as clean-up does

      const lines = await Array.fromAsync(readAuditLog(workspace.path));

      const calls = lines.filter(({ tool }) => tool === "count");
      assertEquals(calls.map(({ session, decision }) => [session, decision]), [
        [sessions[0], "allow"],
        [sessions[1], "allow"],
      ]);
      assertEquals((await verifyAuditLog(workspace.path)).ok, true);
    },
  );
});

Deno.test("sessions have the settings of the workspace that is served, and leave no record of their own", async () => {
  await using outside = await TempFolder.create();
  await using state = await TempFolder.create();
  await using workspace = await workspaceWith({ closed: { ...prober(), sandbox: "closed.json" } });
  const settings = JSON.stringify({ filesystem: { allowWrite: [outside.path] } });
  await Deno.writeTextFile(`${workspace.path}/closed.json`, settings);
  await Deno.writeTextFile(`${workspace.path}/.ipybox/sandbox.json`, settings);
  const env = { XDG_STATE_HOME: state.path };
  const trusted = await ipybox(["trust", "--yes"], { cwd: workspace.path, env });
  assertEquals(trusted.code, 0, trusted.stderr);
  await using server = await HttpMcp.start([
    ...["--workspace", workspace.path, "--approve", "allow", "--project", workspace.path],
    ...["--sandbox-config", `${workspace.path}/.ipybox/sandbox.json`],
  ], { env });
  await using tenant = await Tenant.join(server);

  const written = await tenant.host.execute(`open("${outside.path}/by-code", "w").write("x")`);
  const probed = await tenant.probe("closed", { write: `write("${outside.path}/by-server")` });

  assertEquals(written, "1");
  assertMatch(probed, /^\{"write": "written"\}/);
  const names = await Array.fromAsync(Deno.readDir(`${state.path}/ipybox/trust`));
  assertEquals(names.filter(({ name }) => name.endsWith(".json")).length, 1);
});
