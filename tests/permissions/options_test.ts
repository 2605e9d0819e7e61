/** The rows of docs/typescript.md that need more than the example does. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { fileURLToPath } from "node:url";
import { Machine, type Permission } from "../support/machine.ts";
import { rawServer } from "../support/mcp.ts";
import { OAuthServers } from "../support/oauth.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { makeWheels } from "../support/wheels.ts";

const prober = fileURLToPath(new URL("../fixtures/mcp/prober.py", import.meta.url));
const script = fileURLToPath(new URL("../fixtures/permitted.ts", import.meta.url));

/** More than any row names, but not all: what Deno keeps for `--allow-all` stays closed. */
const MORE = ["read", "write", "env", "run", "net", "sys"].map((name) => `--allow-${name}`);

/** A row: what it is about, what it needs in place of or beside the rest, and what it prints. */
interface Row {
  readonly args: readonly string[];
  /** Permissions beside those of an executor. A flag without a value replaces those with one. */
  readonly needs: readonly (readonly [flag: string, value?: string])[];
  readonly prints: string;
  /** Whether it is run with more, too. */
  readonly more?: true;
  readonly env?: Readonly<Record<string, string>>;
  /** What the error says without one of them, or with none of them. */
  readonly missed: Readonly<Record<string, string>>;
}

/** Runs a row with what it needs, perhaps with more, and with one permission fewer. */
async function checkRow(t: Deno.TestContext, machine: Machine, row: Row): Promise<void> {
  const { args, needs, prints, more = false, env, missed } = row;
  const attempt = async (granted: readonly (Permission | string)[]) => {
    const { code, stdout, stderr } = await machine.run(granted, { script, args, env });
    return { code, stdout: stdout.trim(), stderr };
  };
  const exactly = grantedOf(machine, needs);
  const runs = [["what it names", exactly], ["more", MORE]] as const;
  for (const [what, granted] of more ? runs : runs.slice(0, 1)) {
    await t.step(`with ${what}`, async () => {
      const { code, stdout, stderr } = await attempt(granted);
      assertEquals({ code, stdout }, { code: 0, stdout: prints }, stderr);
    });
  }
  for (const [flag, said] of Object.entries(missed)) {
    await t.step(`without ${flag}`, async () => {
      const rest = needs.filter(([name, value]) => flag !== nameOf(name, value));
      assert(rest.length < needs.length);
      const { code, stdout, stderr } = await attempt(grantedOf(machine, rest));
      assertEquals({ code, stdout }, { code: 1, stdout: "" }, stderr);
      assertStringIncludes(stderr, said);
    });
  }
}

function nameOf(flag: string, value?: string): string {
  return value === undefined ? flag : `${flag}=${value}`;
}

function grantedOf(machine: Machine, needs: Row["needs"]): (Permission | string)[] {
  const whole = needs.flatMap(([flag, value]) => value === undefined ? [flag] : []);
  const listed = needs.flatMap(([flag, value]): Permission[] =>
    value === undefined || whole.includes(flag) ? [] : [[flag, value, "", ""]]
  );
  const base = machine.permissions.filter(([flag, value]) =>
    value !== "npx" && !whole.includes(flag)
  );
  return [...whole, ...base, ...listed];
}

/** A server that a program may start by a name. */
function server(more: object = {}): string {
  return JSON.stringify({ ...rawServer(), command: "deno", ...more });
}

Deno.test("registerServer() also takes everything, and then writes stubs", async () => {
  await using machine = await Machine.create();
  const { code, stdout, stderr } = await machine.run(["--allow-all"], {
    script,
    args: ["register", server(), "echo"],
  });
  assertEquals({ code, stdout }, { code: 0, stdout: "mcptools.own.echo\n" }, stderr);
  await Deno.lstat(`${machine.workspace}/ipybox_runtime/__init__.pyi`);
});

Deno.test("a remote server needs its host", async (t) => {
  await using machine = await Machine.create();
  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: "far", version: "1" });
    server.registerTool("far", {}, () => ({ content: [] }));
    return server;
  });
  const ending = new AbortController();
  const { signal } = ending;
  const listen = { hostname: "127.0.0.1", port: 0, signal, onListen() {} };
  await using http = Deno.serve(listen, (request) => mcp.fetch(request));
  await checkRow(t, machine, {
    args: ["register", `http://localhost:${http.addr.port}/mcp`, "far"],
    needs: [["--allow-net", "localhost"]],
    prints: "mcptools.own.far",
    missed: { "--allow-net=localhost": 'net access to "localhost' },
  });
  ending.abort(); // a stream of events has no end of its own
});

Deno.test("a login needs the folder of logins, and where that is", async (t) => {
  await using machine = await Machine.create();
  await using home = await TempFolder.create();
  await using servers = OAuthServers.start();
  const state = `${home.path}/ipybox`;
  await checkRow(t, machine, {
    args: ["register", servers.url, "echo"],
    needs: [
      ["--allow-env", "HOME"],
      ["--allow-env", "XDG_STATE_HOME"],
      ["--allow-read", state],
      ["--allow-write", state],
    ],
    env: { XDG_STATE_HOME: home.path },
    prints: "mcptools.own.echo",
    missed: {
      "--allow-env=XDG_STATE_HOME": "which cannot be stored: allow reading HOME and XDG_STATE_HOME",
      [`--allow-read=${state}`]: "and reading and writing ~/.local/state/ipybox",
    },
  });
});

Deno.test("a variable in a server's parameters needs env of its name", async (t) => {
  await using machine = await Machine.create();
  await checkRow(t, machine, {
    args: ["register", server({ env: { OWN: "${OWN_TOKEN}" } }), "echo"],
    needs: [["--allow-env", "OWN_TOKEN"]],
    env: { OWN_TOKEN: "x" },
    prints: "mcptools.own.echo",
    missed: { "--allow-env=OWN_TOKEN": "OWN_TOKEN" },
  });
});

Deno.test("a server's folder below the workspace needs /bin/sh", async (t) => {
  await using machine = await Machine.create();
  await Deno.mkdir(`${machine.workspace}/.ipybox/below`, { recursive: true });
  const params = { command: machine.python, args: [prober], cwd: ".ipybox/below" };
  await checkRow(t, machine, {
    args: ["register", JSON.stringify(params), "attempt"],
    needs: [["--allow-run", "/bin/sh"]],
    prints: "mcptools.own.attempt",
    missed: { "--allow-run=/bin/sh": "/bin/sh" },
  });
});

Deno.test("installPackages() needs files, variables and uv, and names what it lacks", async (t) => {
  await using machine = await Machine.create();
  await using wheels = await TempFolder.create();
  const files = { "own.py": "VALUE = 42" };
  await makeWheels(wheels.path, [{ name: "own", files }, { name: "second" }]);
  // The sandbox of an installer shows only what is installed, not a link to it.
  const bin = `${await Deno.realPath(`${machine.cache}/ipybox/python/tests`)}/bin`;
  const [python, uv] = [`${bin}/python`, `${bin}/uv`];
  const row = {
    args: ["install", "own", python],
    needs: [
      ["--allow-read"],
      ["--allow-write"],
      ["--allow-env"],
      ["--allow-run", python],
      ["--allow-run", uv],
    ],
    prints: "42",
    missed: {},
  } as const;
  const env = { PIP_NO_INDEX: "1", PIP_FIND_LINKS: wheels.path };
  await checkRow(t, machine, { ...row, env });
  await t.step("without files and variables", async () => {
    const granted = grantedOf(machine, row.needs.filter(([, value]) => value !== undefined));
    const { stderr } = await machine.run(granted, { script, args: row.args, env });
    const lacks = "the program runs without --allow-read and --allow-write and --allow-env";
    assertStringIncludes(stderr, lacks);
  });
  await t.step("without uv", async () => {
    const granted = grantedOf(machine, row.needs.filter(([, value]) => value !== uv));
    const args = ["install", "second", python];
    const { stderr } = await machine.run(granted, { script, args, env });
    assertStringIncludes(stderr, `run access to "${uv}"`);
  });
  await t.step("without net for its index", async () => {
    const granted = grantedOf(machine, row.needs);
    const { stderr } = await machine.run(granted, {
      script,
      args: ["install", "other", python],
      env: { PIP_INDEX_URL: "http://localhost:59999/simple" },
    });
    assertStringIncludes(stderr, 'net access to "localhost:59999"');
  });
});

Deno.test("a Python of one's own needs run of it", async (t) => {
  await using machine = await Machine.create();
  const own = await Deno.realPath(`${machine.cache}/ipybox/python/tests`);
  await checkRow(t, machine, {
    args: ["python", `${own}/bin/python`],
    needs: [["--allow-run", `${own}/bin/python`]],
    prints: "42",
    missed: { [`--allow-run=${own}/bin/python`]: `run access to "${own}/bin/python"` },
  });
});

Deno.test("a durable session needs a socket and its folder", async (t) => {
  await using machine = await Machine.create();
  await using home = await TempFolder.create();
  const state = `${home.path}/ipybox`;
  await checkRow(t, machine, {
    args: ["durable"],
    needs: [
      ["--allow-net"],
      ["--allow-env", "HOME"],
      ["--allow-env", "XDG_STATE_HOME"],
      ["--allow-read", state],
      ["--allow-write", state],
    ],
    env: { XDG_STATE_HOME: home.path },
    prints: "42",
    more: true,
    missed: {
      "--allow-net": "net access to",
      "--allow-env=XDG_STATE_HOME": "write access to",
      [`--allow-read=${state}`]: "read access to",
      [`--allow-write=${state}`]: "write access to",
    },
  });
});

Deno.test("servers and calls need no more, permanent decisions the state folder; without it, the log is in the workspace", async (t) => {
  await using machine = await Machine.create();
  await using home = await TempFolder.create();
  const state = `${home.path}/ipybox`;
  const args = ["decide", server(), "echo"];
  const env = { XDG_STATE_HOME: home.path };
  const log = `${machine.workspace}/.ipybox/audit.jsonl`;
  await t.step("without it", async () => {
    const granted = grantedOf(machine, []);
    const { code, stdout, stderr } = await machine.run(granted, { script, args, env });
    assertEquals({ code, stdout }, { code: 0, stdout: "cell,session\n" }, stderr);
    await Deno.remove(log);
  });
  await checkRow(t, machine, {
    args,
    needs: [
      ["--allow-env", "HOME"],
      ["--allow-env", "XDG_STATE_HOME"],
      ["--allow-read", state],
      ["--allow-write", state],
    ],
    env,
    prints: "cell,session,always",
    more: true,
    missed: {},
  });
  await assertRejects(() => Deno.lstat(log), Deno.errors.NotFound);
});

Deno.test("a policy of one's own needs its folder", async (t) => {
  await using machine = await Machine.create();
  await using home = await TempFolder.create();
  const settings = `${home.path}/ipybox`;
  await Deno.mkdir(settings);
  await Deno.writeTextFile(
    `${settings}/policy.json`,
    JSON.stringify({ rules: [{ effect: "deny", tool: "*" }] }),
  );
  await checkRow(t, machine, {
    args: ["policy"],
    needs: [
      ["--allow-env", "HOME"],
      ["--allow-env", "XDG_CONFIG_HOME"],
      ["--allow-read", settings],
    ],
    env: { XDG_CONFIG_HOME: home.path },
    prints: "42",
    missed: { [`--allow-read=${settings}`]: "read access to" },
  });
});
