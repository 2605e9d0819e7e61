/** Tokens stay on the host: executed code, generated code, logs and errors have none of them. */
import { assert, assertMatch, assertRejects } from "@std/assert";
import { generateMcpSources } from "../../src/apigen/sources.ts";
import { ConfigError } from "../../src/errors.ts";
import { follow, TestExecutor } from "../support/executor.ts";
import { filesBelow } from "../support/files.ts";
import { loginFiles, OAuthWorld, person } from "../support/oauth.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** All is allowed: nobody is asked. */
function decide(): void {}

/** Looks for tokens wherever code can look. It knows their first letters, not the tokens. */
const SEARCH = `
import os, pathlib
from mcptools.remote import echo
print("CALLED", echo.run(echo.Params(text="hello")))
seen = []
def look(what, data):
    for mark in (b"access-", b"refresh-"):
        at = data.find(mark)
        if at >= 0 and data[at + len(mark):at + len(mark) + 8].isalnum():
            seen.append((what, data[at:at + 50]))
def read(path):
    try:
        with open(path, "rb") as file:
            look(str(path), file.read(1 << 22))
    except OSError:
        pass
    except ValueError:
        pass
look("environment", repr(dict(os.environ)).encode())
for process in pathlib.Path("/proc").glob("[0-9]*"):
    for name in ("environ", "cmdline"):
        read(process / name)
for root in (".", "/tmp", os.environ.get("HOME", "/"), "STATE"):
    for folder, _, names in os.walk(root):
        for name in names:
            read(os.path.join(folder, name))
read("FILE")
for path in ("STATE", "STATE/ipybox", "STATE/ipybox/logins", "FILE"):
    try:
        print("OPENED", path, os.listdir(path) if os.path.isdir(path) else open(path).read())
    except OSError as error:
        print("DENIED", type(error).__name__)
print("SEEN", seen)
`;

Deno.test("executed code calls a server that wants a login, and finds no token anywhere", async () => {
  await using world = await OAuthWorld.create();
  await using workspace = await TempFolder.create();
  const { servers, state, logins } = world;
  const said: string[] = [];
  const note = (message: string) => void said.push(message);
  const log = { debug: note, info: note, warn: note, error: note };
  const params = { url: servers.url };
  const options = { rootDir: `${workspace.path}/mcptools`, workspace: workspace.path, log };
  await generateMcpSources("remote", params, { ...options, login: person() });
  const [file = ""] = await loginFiles(logins);
  {
    await using started = await TestExecutor.start({
      workspace: workspace.path,
      servers: { remote: params },
      approval: "allow",
      log,
      // A user who opens all of the disk does not open this.
      sandbox: { config: { filesystem: { allowRead: [state] } }, allowUnsafe: true },
    });
    const { executor } = started;
    await executor.registerServer("remote", params);
    const code = SEARCH.replaceAll("STATE", state).replaceAll("FILE", file);
    const { result } = await follow(executor, code, decide);
    note(result?.text ?? "");
    assertMatch(result?.text ?? "", /CALLED .*echo: hello/);
    assertMatch(result?.text ?? "", /SEEN \[\]/);
    // The folder is there, but empty.
    assertMatch(result?.text ?? "", /OPENED \S+\/logins \[\]\nDENIED FileNotFoundError/);

    // The token is refreshed below the code, which notices nothing.
    servers.expire();
    const refreshed = await follow(executor, 'print(echo.run(echo.Params(text="again")))', decide);
    note(refreshed.result?.text ?? "");
    assertMatch(refreshed.result?.text ?? "", /echo: again/);

    servers.expire();
    servers.end();
    const ended = await follow(
      executor,
      "from ipybox_runtime import LoginRequiredError\n" +
        'try:\n    echo.run(echo.Params(text="x"))\n' +
        "except LoginRequiredError as error:\n    print('ENDED', error, vars(error))",
      decide,
    );
    note(ended.result?.text ?? "");
    assertMatch(ended.result?.text ?? "", /ENDED .* asks for a login: run `ipybox login remote/);
  }
  assert(servers.secrets.length >= 5);
  const files = await filesBelow(workspace.path);
  assert(
    [...files.keys()].some((path) => path.includes("audit")),
    "the audit log was not looked at",
  );
  assert([...files.keys()].some((path) => path.includes("mcp.json")), "no registry was looked at");
  for (const secret of servers.secrets) {
    for (const [path, text] of files) assert(!text.includes(secret), path);
    for (const message of said) assert(!message.includes(secret), message);
  }
});

Deno.test("a workspace that holds the logins is refused", async () => {
  await using world = await OAuthWorld.create();

  const error = await assertRejects(
    () => TestExecutor.start({ workspace: world.state }),
    ConfigError,
  );

  assertMatch(error.message, /logins to MCP servers are kept in/);
});
