/** `ipybox register`, `login` and `logout` with servers that ask for a login. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { type CliEnd, ipybox, startIpybox } from "../support/cli.ts";
import { commandsIn } from "../support/command_io.ts";
import { CommandProcess } from "../support/command_process.ts";
import { filesBelow } from "../support/files.ts";
import { OAuthWorld, visit } from "../support/oauth.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal } from "../support/terminal.ts";

/** What a person does who is shown the page of a login. */
type Person = (page: URL, child: Deno.ChildProcess) => unknown;

/** Runs a command that waits for a login. */
async function withPerson(
  args: readonly string[],
  env: Record<string, string>,
  person: Person = visit,
): Promise<CliEnd> {
  const child = startIpybox(args, { env });
  let stderr = "";
  let acted = false;
  const reading = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      stderr += text;
      const page = /^ {2}(http\S+)\n[^]*Ctrl-C/m.exec(stderr)?.[1];
      if (page === undefined || acted) continue;
      acted = true;
      await person(new URL(page), child);
    }
  })();
  const [stdout, { code }] = await Promise.all([child.stdout.text(), child.status, reading]);
  return { code, stdout, stderr };
}

Deno.test("a person logs in by register and login, and out by logout", async (t) => {
  await using world = await OAuthWorld.create();
  await using workspace = await TempFolder.create();
  const { servers, state } = world;
  const env = { XDG_STATE_HOME: state };
  await using commands = new CommandProcess({ env });
  const at = ["--workspace", workspace.path];
  const step = stepsOf(t);

  await step("register without a terminal says how to log in, and registers nothing", async () => {
    const args = ["register", "remote", "--url", servers.url, ...at];
    const { code, stdout, stderr } = await commands.run(args);
    assertEquals({ code, stdout }, { code: 3, stdout: "" });
    assertEquals(
      stderr,
      `ipybox: MCP server "remote" requires a login: ` +
        `run \`ipybox register --login ${args.slice(1).join(" ")}\`\n`,
    );
    assertEquals(await filesBelow(workspace.path), new Map());
  });

  await step("register --login prints the page, waits for the browser and registers", async () => {
    const args = ["register", "remote", "--login", "--url", servers.url, ...at];
    const { code, stdout, stderr } = await withPerson(args, env);
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, "remote: 2 tools in mcptools/remote/\n");
    assertStringIncludes(stderr, `What you allow at ${new URL(servers.issuer).host} is given to `);
    assertMatch(stderr, /^To log in to remote, open this page of 127\.0\.0\.1:\d+ in a browser/m);
  });

  await step("register again needs no login", async () => {
    const { code } = await commands.run(["register", "remote", "--url", servers.url, ...at]);
    assertEquals(code, 0);
  });

  const listed = async () => (await commands.run(["servers", ...at])).stdout;

  await step("servers tells that there is a login, and how many tools", async () => {
    assertEquals(await listed(), `  remote  ${servers.url} (2 tools, logged in)\n`);
  });

  await step("login makes a new one", async () => {
    const { code, stdout, stderr } = await withPerson(["login", "remote", ...at], env);
    assertEquals({ code, stdout }, { code: 0, stdout: "remote: logged in, 2 tools\n" }, stderr);
    assertEquals(servers.count("/authorize"), 2);
  });

  await step("Ctrl-C gives up a login", async () => {
    const { code, stderr } = await withPerson(
      ["login", "remote", ...at],
      env,
      (_page, child) => child.kill("SIGINT"),
    );
    assertEquals(code, 130);
    assertMatch(stderr, /ipybox: interrupted\n$/);
  });

  await step("logout revokes and deletes it", async () => {
    const first = await commands.run(["logout", "remote", ...at]);
    const second = await commands.run(["logout", "remote", ...at]);
    assertEquals(first, { code: 0, stdout: "remote: logged out\n", stderr: "" });
    assertEquals(second, { code: 0, stdout: "", stderr: "remote: not logged in\n" });
    assertEquals(servers.revoked.length, 2);
    assertEquals(await listed(), `  remote  ${servers.url} (2 tools, no login stored)\n`);
  });

  await step("unregister ends the login, too", async () => {
    const { code } = await withPerson(["login", "remote", ...at], env);
    assertEquals(code, 0);
    const gone = await commands.run(["unregister", "remote", ...at]);
    assertEquals(gone, { code: 0, stdout: "remote: removed\nremote: logged out\n", stderr: "" });
    assertEquals(servers.revoked.length, 4);
  });

  await step("what was printed and written has no secret", async () => {
    for (const [path, text] of await filesBelow(workspace.path)) {
      for (const secret of servers.secrets) assert(!text.includes(secret), path);
    }
  });
});

Deno.test("at a terminal, register asks for the login by itself", async () => {
  await using world = await OAuthWorld.create();
  await using workspace = await TempFolder.create();
  const args = ["register", "remote", "--url", world.servers.url, "--workspace", workspace.path];

  const { code, output } = await ipyboxAtTerminal(args, [["Press Ctrl-C to cancel.", "!\u0003"]]);

  assertEquals(code, 130, output);
  assertStringIncludes(output, `${world.servers.issuer}/authorize?response_type=code`);
});

Deno.test("login and logout take registered remote servers only", async () => {
  await using workspace = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  await Deno.writeTextFile(
    `${workspace.path}/.ipybox/mcp.json`,
    JSON.stringify({ mcpServers: { local: { command: "cat" } } }),
  );
  for (const command of ["login", "logout"]) {
    for (const [name, words] of [["local", /is local/], ["none", /No server "none"/]] as const) {
      const { code, stderr } = await commandsIn(workspace.path)([command, name]);
      assertEquals(code, 2);
      assertMatch(stderr, words);
    }
  }
});

Deno.test("register takes secrets as variables only, and keeps them so", async () => {
  await using world = await OAuthWorld.create({ clients: { robot: "robot-secret" } });
  await using workspace = await TempFolder.create();
  const { servers, state } = world;
  const register = (secret: string) => [
    ...["register", "remote", "--url", servers.url, "--workspace", workspace.path],
    ...["--client-id", "robot", "--client-secret", secret, "--issuer", servers.issuer],
    "--client-credentials",
  ];
  const env = { XDG_STATE_HOME: state, ROBOT: "robot-secret" };

  const literal = await ipybox(register("robot-secret"), { env });
  const variable = await ipybox(register("${ROBOT}"), { env });

  assertEquals(literal.code, 2);
  assertMatch(literal.stderr, /--client-secret takes a variable/);
  assert(!literal.stderr.includes("robot-secret"));
  assertEquals(variable.code, 0, variable.stderr);
  const registry = await Deno.readTextFile(`${workspace.path}/.ipybox/mcp.json`);
  assertEquals(JSON.parse(registry).mcpServers.remote.oauth, {
    clientId: "robot",
    clientSecret: "${ROBOT}",
    issuer: servers.issuer,
    grant: "client_credentials",
  });
});
