import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { COMMANDS } from "../../src/commands/mod.ts";
import { ipybox } from "../support/cli.ts";
import { inThisProcess } from "../support/command_io.ts";

Deno.test("ipybox --help lists the commands", async (t) => {
  const { code, stdout, stderr } = await ipybox(["--help"]);

  assertEquals({ code, stderr }, { code: 0, stderr: "" });
  await t.assertSnapshot(stdout);
  assertEquals(await ipybox(["help"]), { code, stdout, stderr });
  assertEquals(await ipybox([]), { code: 2, stdout, stderr });
});

for (const name of Object.keys(COMMANDS)) {
  Deno.test(`ipybox ${name} --help tells what it does and gives an example`, async (t) => {
    const { code, stdout, stderr } = await inThisProcess([name, "--help"]);

    assertEquals({ code, stderr }, { code: 0, stderr: "" });
    await t.assertSnapshot(stdout);
    assert(new RegExp(`^  .*\\bipybox ${name}`, "m").test(stdout), "there is no example");
    const wide = stdout.split("\n").filter((line) => line.length > 80 && !line.startsWith("  "));
    assertEquals(wide, []);
  });
}

Deno.test("ipybox --version says its version", async () => {
  const { default: { version } } = await import("../../deno.json", { with: { type: "json" } });

  assertEquals(await ipybox(["--version"]), {
    code: 0,
    stdout: `ipybox ${version}\n`,
    stderr: "",
  });
});

Deno.test("ipybox refuses a command line that it does not understand", async (t) => {
  const cases: [args: string[], message: string, hint: string][] = [
    [["rnu"], 'Unknown command "rnu"; did you mean "run"?', "ipybox --help"],
    [["serv"], 'did you mean "servers"?', "ipybox --help"],
    [["--versin"], 'Unknown option --versin; did you mean "--version"?', "ipybox --help"],
    [["help", "nothing"], 'Unknown command "nothing"', "ipybox --help"],
    [["--fast=1"], "Unknown option --fast\n", "ipybox --help"],
    [["run", "--fast"], "Unknown option --fast", "ipybox run --help"],
    [["run", "-x"], "Unknown option -x\n", "ipybox run --help"],
    [["run", "--aprove=deny"], '--aprove; did you mean "--approve"?', "ipybox run --help"],
    [["actions", "--chek"], '--chek; did you mean "--check"?', "ipybox actions --help"],
    [["mcp", "--htp"], '--htp; did you mean "--http"?', "ipybox mcp --help"],
    [["run"], "Specify exactly one of FILE, -c CODE, or - (stdin)", "ipybox run --help"],
    [["run", "a.py", "-c", "1"], "Specify exactly one of FILE, -c CODE", "ipybox run --help"],
    [["run", "a.py", "b.py"], 'Unexpected argument "b.py"', "ipybox run --help"],
    [
      ["run", "c.py", "people.csv"],
      'the script\'s arguments go after "--": ipybox run c.py -- people.csv\n',
      "ipybox run --help",
    ],
    [["run", "-c"], "Option --code needs a value", "ipybox run --help"],
    [["run", "-c", "1", "-c", "2"], "Option --code was given twice", "ipybox run --help"],
    [["run", "--json=1"], "Option --json takes no value", "ipybox run --help"],
    [["run", "--timeout", "--json"], "--timeout needs a value: SECONDS", "ipybox run --help"],
    [["run", "-c", "1", "--timeout", "soon"], "a number above 0", "ipybox run --help"],
    [["run", "-c", "1", "--timeout=-1"], "a number above 0", "ipybox run --help"],
    [
      ["run", "--timeout", "-1", "-c", "1"],
      'Option --timeout needs a number above 0: received "-1"',
      "ipybox run --help",
    ],
    [["setup", "--fast"], "Unknown option --fast", "ipybox setup --help"],
    [["doctor", "--fast"], "Unknown option --fast", "ipybox doctor --help"],
    [["run", "-c", "1", "--approve", "maybe"], "ask, allow, deny or reads", "ipybox run --help"],
    [["run", "/no/such/file.py"], 'No file "/no/such/file.py"', "ipybox run --help"],
    [["run", "/tmp"], '"/tmp" is a directory', "ipybox run --help"],
    [["run", "-c", "1", "--workspace", "/no/such"], '"/no/such" does not exist', "run --help"],
    [["run", "-c", "1", "--workspace", "/etc/passwd"], "is not a directory", "run --help"],
    [
      ["run", "-c", "1", "--no-sandbox", "--sandbox-config", "a.json"],
      "cannot be combined",
      "ipybox run --help",
    ],
    [["mcp", "--approve", "maybe"], "ask, allow, deny or reads", "ipybox mcp --help"],
    [["show"], "Missing argument", "ipybox show --help"],
    [["show", "everything"], "`ipybox tools --server everything`", "ipybox show --help"],
    [["show", "X.tool"], 'Invalid MCP server name "X"', "ipybox show --help"],
    [["tools", "--server", "../x"], 'Invalid MCP server name "../x"', "ipybox tools --help"],
    [["unregister", "../x"], 'Invalid MCP server name "../x"', "ipybox unregister --help"],
    [["register"], "Specify a server with", "ipybox register --help"],
    [["register", "--", "true"], "Missing NAME", "ipybox register --help"],
    [
      ["register", "a", "--url", "http://a", "--", "true"],
      "Specify a server with",
      "register --help",
    ],
    [
      ["register", "time", "uvx", "mcp-server-time"],
      'Unexpected argument "uvx": the server\'s command goes after "--": ' +
      "ipybox register time -- uvx mcp-server-time\n",
      "ipybox register --help",
    ],
    [
      ["register", "a", "--cwd", "npx", "npx", "-y", "a b"],
      "ipybox register a --cwd npx -- npx -y 'a b'\n",
      "ipybox register --help",
    ],
    [["register", "a", "b", "--", "true"], 'Unexpected argument "b"\n', "ipybox register --help"],
    [["servers", "raw"], 'Unexpected argument "raw"\n', "ipybox servers --help"],
    [["register", "A-b", "--", "true"], '"a_b" would do', "register --help"],
    [["register", "class", "--", "true"], "Python keyword", "ipybox register --help"],
    [["register", "a", "--env", "X", "--", "true"], "NAME=VALUE", "ipybox register --help"],
    [["register", "a", "--header", "X: y", "--", "true"], "cannot be used with", "register --help"],
    [["register", "a", "--url", "http://a", "--type", "ws"], "streamable_http", "register --help"],
    [["register", "--from", "/no/such.json"], 'No file "/no/such.json"', "register --help"],
    [["register", "a", "--from", "x.json"], "--from takes no NAME", "ipybox register --help"],
  ];
  for (const [args, message, hint] of cases) {
    await t.step(`ipybox ${args.join(" ")}`, async () => {
      const { code, stdout, stderr } = await inThisProcess(args);
      assertEquals({ code, stdout }, { code: 2, stdout: "" }, stderr);
      assertStringIncludes(stderr, message);
      assertStringIncludes(stderr, hint);
      assertEquals(stderr.includes("    at "), false, stderr);
    });
  }
});
