import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { commandsIn } from "../support/command_io.ts";
import { CommandProcess } from "../support/command_process.ts";
import { ipyboxAtTerminal } from "../support/terminal.ts";
import { filesBelow } from "../support/files.ts";
import { npmServer, rawServer } from "../support/mcp.ts";
import { stepsOf } from "../support/steps.ts";
import { writeAcceptedPolicy } from "../support/policy.ts";
import { TempFolder } from "../support/temp_folder.ts";

const everything = npmServer("server-everything", "stdio");
const EVERYTHING = [
  ...Object.entries(everything.env ?? {}).flatMap(([name, value]) => ["--env", `${name}=${value}`]),
  "--",
  everything.command,
  ...everything.args ?? [],
];
const raw = rawServer();
const RAW = ["--", raw.command, ...raw.args ?? []];

Deno.test("ipybox registers, lists, shows and forgets MCP servers", async (t) => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  await using withKey = new CommandProcess({ cwd, env: { IPYBOX_TEST_KEY: "the secret" } });
  const step = stepsOf(t);

  await step("servers says that there are none", async () => {
    const { code, stdout, stderr } = await command(["servers"]);
    assertEquals({ code, stdout }, { code: 0, stdout: "" });
    assertStringIncludes(stderr, "No servers are registered");
    assertEquals(await command(["tools", "echo"]), { code, stdout, stderr });
  });

  await step("register generates the Python API and says what is in it", async () => {
    const { code, stdout, stderr } = await command(["register", "everything", ...EVERYTHING]);
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, "everything: 15 tools in mcptools/everything/\n");
    assertStringIncludes(stdout, "  get_sum  (get-sum)\n");
    assertStringIncludes(stdout, "  echo\n");
    const files = await filesBelow(`${cwd}/mcptools/everything`);
    assert(files.has("get_sum.py"));
  });

  await step("register keeps placeholders and the other servers", async () => {
    const { code, stderr } = await withKey.run(
      ["register", "raw", "--env", "KEY=${IPYBOX_TEST_KEY}", ...RAW],
    );
    assertEquals(code, 0, stderr);
    const { stdout } = await command(["servers", "--json"]);
    assertEquals(JSON.parse(stdout), {
      mcpServers: {
        everything,
        raw: { ...raw, env: { KEY: "${IPYBOX_TEST_KEY}" } },
      },
    });
    for (const [path, text] of await filesBelow(cwd)) assert(!text.includes("the secret"), path);
  });

  await step(
    "register keeps how long the start may take",
    async () => {
      const registered = async () =>
        JSON.parse((await command(["servers", "--json"])).stdout).mcpServers.patient;
      for (
        const [options, time] of [[["--connect-timeout", "90.5"], 90_500], [[], undefined]] as const
      ) {
        const { code, stderr } = await command(["register", "patient", ...options, ...RAW]);
        assertEquals(code, 0, stderr);
        assertEquals((await registered()).connectTimeoutMs, time);
      }
      await command(["unregister", "patient"]);
    },
  );

  await step(
    "register replaces another server only when told to",
    async () => {
      const serversIn = async () => JSON.parse((await command(["servers", "--json"])).stdout);
      const before = await serversIn();
      const same = ["--env", "KEY=${IPYBOX_TEST_KEY}", ...RAW];
      const again = await withKey.run(["register", "raw", ...same]);
      assertEquals([again.code, await serversIn()], [0, before], again.stderr);

      const other = ["register", "raw", "--env", "B=1", ...RAW, "more"];
      const refused = await withKey.run(other);
      assertEquals([refused.code, await serversIn()], [2, before]);
      assertMatch(
        refused.stderr,
        /^ipybox: raw is registered as KEY=.*raw_server\.ts normal: add --force to replace it\n$/,
      );
      const forced = await withKey.run([...other.slice(0, 2), "--force", ...other.slice(2)]);
      assertEquals(forced.code, 0, forced.stderr);
      assertEquals((await serversIn()).mcpServers.raw.env, { B: "1" });
    },
  );

  await step("servers lists them", async () => {
    const { stdout } = await command(["servers"]);
    const lines = stdout.trimEnd().split("\n");
    assert(/^ {2}everything {2}\S+/.test(lines[0] ?? ""), stdout);
    assertStringIncludes(stdout, "  raw         ");
    assertStringIncludes(stdout.replaceAll(/\s+/g, " "), " stdio (15 tools) ");

    await Deno.rename(`${cwd}/mcptools/raw`, `${cwd}/raw`);
    const bare = (await command(["servers"])).stdout;
    assertStringIncludes(
      bare.replaceAll(/\s+/g, " "),
      "(no Python API: register it again, or all of them with `ipybox register --from",
    );
    await Deno.mkdir(`${cwd}/mcptools/raw`);
    await Deno.writeTextFile(`${cwd}/mcptools/raw/schema.json`, "[");
    const damaged = await command(["servers"]);
    assertEquals([damaged.code, damaged.stdout.includes("  raw         ")], [0, true]);
    assertStringIncludes(damaged.stderr, "raw/schema.json is damaged: register the server again");
    await Deno.remove(`${cwd}/mcptools/raw`, { recursive: true });
    await Deno.rename(`${cwd}/raw`, `${cwd}/mcptools/raw`);
  });

  await step("policy explain knows a tool by its Python name, too", async () => {
    await writeAcceptedPolicy(cwd, '{"rules": [{"effect": "deny", "tool": "get-sum"}]}');
    const explain = async (tool: string) => {
      const { stdout, stderr } = await command(["policy", "explain", tool]);
      return [stdout.split(":")[0], stderr];
    };
    assertEquals(await explain("everything.get-sum"), ["deny", ""]);
    assertEquals(await explain("everything.get_sum"), [
      "deny",
      'everything.get_sum is the tool "get-sum"\n',
    ]);
    assertEquals(await explain("everything.get_sun"), [
      "ask",
      'Server "everything" has no tool "get_sun": see `ipybox tools`\n',
    ]);
    await Deno.remove(`${cwd}/.ipybox/policy.json`);
  });

  await step("show names what may be meant", async () => {
    const shown = async (tool: string) => (await command(["show", tool])).stderr;
    const tool = 'Server "everything" has no tool "get_sun": did you mean "everything.get_sum"?';
    assertStringIncludes(await shown("everything.get_sun"), tool);
    const server = 'No Python API for server "everythin": did you mean "everythin';
    assertStringIncludes(await shown("everythin.get_sum"), `${server}g.get_sum"?`);
    const unlike = 'Server "everything" has no tool "xyz": see `ipybox tools`';
    assertStringIncludes(await shown("everything.xyz"), unlike);
  });

  await step("tools lists and searches", async () => {
    const all = await command(["tools", "--json"]);
    const found = await command(["tools", "sum", "two", "numbers", "--server", "everything"]);
    const nothing = await command(["tools", "xylophone quartet"]);
    assert(JSON.parse(all.stdout).length > 13);
    assertEquals(found.stdout.trim().split(/\s+/)[0], "everything.get_sum");
    // Into a pipe, each is a line, so that it can be searched.
    assertMatch(found.stdout, /^( {2}everything\.\w+ {2,}\S.*\n)+$/);
    assertEquals((await command(["servers"])).stdout.trimEnd().split("\n").length, 2);
    assertEquals(nothing, { code: 0, stdout: "", stderr: "No tools found\n" });
    for (const columns of [80, 110]) {
      const { output } = await ipyboxAtTerminal(["tools"], [], { cwd, columns });
      const longest = Math.max(...output.split("\n").map((line) => line.length));
      assert(longest <= columns && longest > columns - 20, output);
    }
    const misspelt = await command(["tools", "strcutured", "cntent"]);
    assertEquals(misspelt.stderr, 'No tools found; did you mean "structured content"?\n');
    const near = await command(["tools", "--server", "everythin"]);
    assertStringIncludes(
      near.stderr,
      'No server "everythin" is registered; did you mean "everything"? Registered: everything, raw\n',
    );
    const unknown = await command(["tools", "--server", "nope"]);
    assertEquals([unknown.code, unknown.stdout], [2, ""]);
    assertStringIncludes(unknown.stderr, 'No server "nope" is registered. Registered: everything');
  });

  await step("show prints one tool's Python API, by either of its names", async () => {
    const { code, stdout } = await command(["show", "everything.get_sum"]);
    assertEquals(code, 0);
    assertEquals(stdout, await Deno.readTextFile(`${cwd}/mcptools/everything/get_sum.py`));
    assertEquals((await command(["show", "everything.get-sum"])).stdout, stdout);
  });

  await step("show says what it does not find", async () => {
    const noTool = await command(["show", "everything.nothing"]);
    const noServer = await command(["show", "nobody.echo"]);
    assertEquals([noTool.code, noServer.code], [2, 2]);
    assertStringIncludes(noTool.stderr, 'no tool "nothing"');
    assertStringIncludes(noServer.stderr, '"nobody"');
  });

  await step("unregister forgets the server and its API only", async () => {
    const gone = await command(["unregister", "everything"]);
    const again = await command(["unregister", "everything"]);
    assertEquals(gone, { code: 0, stdout: "everything: removed\n", stderr: "" });
    assertEquals(again.code, 2);
    assertStringIncludes(again.stderr, 'No server "everything" is registered. Registered: raw\n');
    const folders = new Set(
      [...(await filesBelow(cwd)).keys()].map((path) => path.split("/").slice(0, 2).join("/")),
    );
    assert(folders.has("mcptools/raw") && !folders.has("mcptools/everything"));
  });

  await step(
    "register --from takes a file of other programs, and each server for itself",
    async () => {
      const file = `${cwd}/servers.json`;
      await Deno.writeTextFile(
        file,
        JSON.stringify({
          mcpServers: {
            good: { ...raw, alwaysAllow: ["echo"] },
            bad: { command: "no-such-command" },
            "Other-server": raw,
          },
        }),
      );
      const { code, stdout, stderr } = await command(["register", "--from", file, "--yes"]);
      assertEquals(code, 1);
      assertStringIncludes(stdout, "good: ");
      assertStringIncludes(stdout, "other_server: ");
      assertStringIncludes(stderr, '"Other-server" is named other_server in Python\n');
      assertStringIncludes(stderr, "no-such-command");
      assertMatch(stderr, /^2 of 3 servers registered\n/m);
      const { stdout: json } = await command(["servers", "--json"]);
      assertEquals(Object.keys(JSON.parse(json).mcpServers), ["good", "other_server", "raw"]);

      // So does the registry itself, into which a person may have written servers.
      await Deno.remove(`${cwd}/mcptools`, { recursive: true });
      const lost = await command(["tools"]);
      assertStringIncludes(lost.stderr, "with `ipybox register --from .ipybox/mcp.json`\n");
      const again = await withKey.run(["register", "--from", `${cwd}/.ipybox/mcp.json`, "--yes"]);
      assertEquals(again.code, 0, again.stderr);
      assertMatch(again.stderr, /^3 of 3 servers registered\n/m);
    },
  );
});

Deno.test("ipybox register leaves everything as it was when it fails", async (t) => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  assertEquals((await command(["register", "raw", ...RAW])).code, 0);
  const before = await filesBelow(cwd);
  const nobody = unusedPort();
  using silent = Deno.listen({ hostname: "127.0.0.1", port: 0 }); // takes connections, says nothing
  const exits = "import sys; print('key is missing', file=sys.stderr); sys.exit(4)";
  const hang = rawServer("hang");
  const cases: Record<string, [code: number, args: string[], words: string[]]> = {
    "a command that does not exist": [
      1,
      ["--", "no-such-command"],
      ['"raw"', "no-such-command", "no-such-command is not on the PATH"],
    ],
    "a server that exits at once": [
      1,
      ["--", "python3", "-c", exits],
      ['"raw"', "exited with code 4", "key is missing"],
    ],
    "a server that never answers": [
      1,
      ["--connect-timeout", "1", "--", hang.command, ...hang.args ?? []],
      ['"raw"', "MCP handshake", "within 1 s"],
    ],
    "an address where nobody is": [
      1,
      ["--url", `http://127.0.0.1:${nobody}/mcp?key=secret`],
      [`http://127.0.0.1:${nobody}/mcp`, "refused"],
    ],
    "an address that never answers": [
      1,
      ["--connect-timeout", "1", "--url", `http://127.0.0.1:${silent.addr.port}/mcp`],
      ["MCP handshake", "within 1 s"],
    ],
    "an address that is none": [2, ["--url", "nowhere"], ['"raw"', "http or https"]],
    "a variable that is not set": [
      2,
      ["--", "touch", `${cwd}/started`, "${NO_SUCH_VARIABLE}"],
      ['"raw"', "${NO_SUCH_VARIABLE}", ".env"],
    ],
  };
  for (const [what, [code, args, words]] of Object.entries(cases)) {
    await t.step(what, async () => {
      const end = await command(["register", "raw", "--force", ...args]);
      assertEquals({ code: end.code, stdout: end.stdout }, { code, stdout: "" }, end.stderr);
      for (const word of words) assertStringIncludes(end.stderr, word);
      assert(!end.stderr.includes("secret") && !end.stderr.includes("    at "), end.stderr);
      assertEquals(await filesBelow(cwd), before);
    });
  }
});

Deno.test("every command that reads the registry says where it is wrong and leaves it alone", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  const path = `${cwd}/.ipybox/mcp.json`;
  const text = '{\n  "mcpServers": {\n    "a": nothing\n  }\n}\n';
  await Deno.mkdir(`${cwd}/.ipybox`);
  await Deno.writeTextFile(path, text);
  const commands = [
    ["servers"],
    ["tools"],
    ["register", "raw", "--", "touch", `${cwd}/started`],
    ["unregister", "raw"],
    ["run", "-c", `open("${cwd}/started", "w")`],
  ];
  const ends = await Promise.all(commands.map(command));
  for (const { code, stdout, stderr } of ends) {
    assertEquals({ code, stdout }, { code: 2, stdout: "" }, stderr);
    assertStringIncludes(stderr, `${path}:3:10: Expected a value`);
  }
  assertEquals([...(await filesBelow(cwd))], [[".ipybox/mcp.json", text]]);
});

/** A port on which nobody listens. */
function unusedPort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

Deno.test("ipybox register warns about a server that gets the whole workspace, or only its own folder", async () => {
  await using workspace = await TempFolder.create();
  const cwd = workspace.path;
  const command = commandsIn(cwd);
  for (
    const [argument, warns] of [
      ["${workspaceFolder}", "raw has the whole workspace"],
      [`--root=${cwd}/`, "raw has the whole workspace"],
      ["/", "raw has the whole workspace"],
      ["${workspaceFolder}/data", undefined],
      [".", "raw starts in an empty folder"],
      ["--root=./", "raw starts in an empty folder"],
      ["a.", undefined],
    ] as const
  ) {
    const line = ["register", "raw", "--force", ...RAW, "/dev/null", argument];
    const { code, stderr } = await command(line);
    const warning = /^raw (has the whole workspace|starts in an empty folder)/m.exec(stderr)?.[0];
    assertEquals([code, warning], [0, warns], stderr);
  }
});
