import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ConfigError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { follow, TestExecutor } from "../support/executor.ts";
import { filesBelow } from "../support/files.ts";
import { rawServer } from "../support/mcp.ts";
import { stepsOf } from "../support/steps.ts";
import { acceptVariables, readVariables } from "../../src/sandbox/own_variables.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { stateOf } from "../support/workspace_state.ts";
import { rejection } from "../support/wait.ts";
import { attack, DENIED, SECRET, Siege, TOOLS } from "./siege.ts";

const linux = Deno.build.os === "linux";

Deno.test("hostile code in the sandbox", async (t) => {
  await using siege = await Siege.begin(true);
  const { executor, workspace, home, canary } = siege;
  const step = stepsOf(t);
  const own = async () => ({
    state: await filesBelow(`${workspace}/.ipybox`),
    tools: await filesBelow(`${workspace}/mcptools`),
    secrets: await Deno.readTextFile(`${workspace}/.env`),
  });

  await step("can use its workspace", async () => {
    const outcomes = await attack(executor, `attempt("write", lambda: write("mine.txt"))`);
    assertEquals(outcomes, { write: "7" });
    assertEquals(await Deno.readTextFile(`${workspace}/mine.txt`), "hostile");
  });

  await step("cannot read the user's files", async () => {
    const outcomes = await attack(
      executor,
      `
results = {}
attempt("canary", lambda: open("${home}/canary").read())
attempt("list", lambda: os.listdir("${home}"))
attempt("link", lambda: (os.symlink("${home}/canary", "leak"), open("leak").read()))
attempt("hard link", lambda: os.link("${home}/canary", "leak2"))
attempt("shadow", lambda: open("/etc/shadow").read())
attempt("root's keys", lambda: os.listdir(os.path.expanduser("~root/.ssh")))
attempt("shell", lambda: subprocess.run(["cat", "${home}/canary"], capture_output=True, check=True))
`,
    );
    const { shell, ...others } = outcomes;
    assertEquals(shell, "CalledProcessError");
    for (const [name, outcome] of Object.entries(others)) assertMatch(outcome, DENIED, name);
  });

  await step("cannot write outside the workspace", async () => {
    const mark = `hostile-${crypto.randomUUID()}`;
    const folders = [home, "/etc", "/usr/bin", "/usr/lib", "/var/tmp", "/tmp", "/"];
    await attack(
      executor,
      `
results = {}
for folder in ${JSON.stringify(folders)}:
    attempt(folder, lambda: write(f"{folder}/${mark}"))
attempt("parent", lambda: write(os.path.join(os.getcwd(), "..", "${mark}")))
attempt("append", lambda: write("${home}/canary"))
`,
    );
    const parent = workspace.slice(0, workspace.lastIndexOf("/"));
    for (const folder of [...folders, parent]) {
      const found = await Deno.lstat(`${folder}/${mark}`).catch(() => undefined);
      assertEquals(found, undefined, folder);
    }
    assertEquals(await Deno.readTextFile(`${home}/canary`), "of the user");
  });

  await step(
    "cannot read or change the host's state, the generated APIs and the secrets",
    async () => {
      const before = await own();
      const outcomes = await attack(
        executor,
        `
results = {}
attempt("read state", lambda: open(".ipybox/mcp.json").read())
attempt("read .env", lambda: open(".env").read())
attempt("write state", lambda: write(".ipybox/mcp.json"))
attempt("new state", lambda: write(".ipybox/policy.json"))
attempt("write consents", lambda: write("${await stateOf(workspace)}/consents.json"))
attempt("rename state", lambda: os.rename(".ipybox", "state"))
attempt("remove state", lambda: shutil.rmtree(".ipybox"))
attempt("write .env", lambda: write(".env"))
attempt("rename .env", lambda: os.rename(".env", "env"))
attempt("write API", lambda: write("mcptools/good/__init__.py"))
attempt("new API", lambda: write("mcptools/good/evil.py"))
attempt("new package", lambda: os.mkdir("mcptools/evil"))
attempt("rename APIs", lambda: os.rename("mcptools", "tools"))
attempt("replace APIs", lambda: os.replace("mcptools/good", "mcptools/evil"))
attempt("remove API", lambda: shutil.rmtree("mcptools/good"))
import ipybox_runtime
attempt("write runtime", lambda: write(ipybox_runtime.__file__))
`,
      );
      for (const [name, outcome] of Object.entries(outcomes)) {
        // The sandbox may show an empty folder in its place, which goes with the sandbox.
        if (name.endsWith(" state")) assert(!outcome.includes("raw_server"), outcome);
        else assertMatch(outcome, DENIED, `${name}: ${outcome}`);
      }
      assertEquals(await own(), before);
    },
  );

  await step("cannot change the packages that are installed for it", async () => {
    const results = await attack(
      executor,
      `
results = {}
def installed_packages():
    return next(path for path in sys.path if "/ipybox/python/packages/" in path)
attempt("package", lambda: write(installed_packages() + "/numpy.py"))`,
    );
    assertMatch(results.package ?? "", DENIED);
  });

  await step("cannot reach the host's ports, nor the world, nor its Unix sockets", async () => {
    const path = `${home}/socket`;
    using listener = Deno.listen({ transport: "unix", path });
    const visit = listener.accept().then(() => "visited", () => "closed");
    const outcomes = await attack(
      executor,
      `
results = {}
attempt("canary", lambda: socket.create_connection(("127.0.0.1", ${canary.port}), 2))
attempt("any address", lambda: socket.create_connection(("0.0.0.0", ${canary.port}), 2))
attempt("world", lambda: socket.create_connection(("1.1.1.1", 443), 2))
attempt("name", lambda: socket.getaddrinfo("example.org", 443))
attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect("${path}"))
`,
    );
    assertEquals(canary.visitors, 0);
    for (const [name, outcome] of Object.entries(outcomes)) {
      assertMatch(outcome, /Error$|^gaierror$|^timeout$/, name);
    }
    listener.close();
    assertEquals(await visit, "closed");
  });

  await step("finds no token but its own, and no secret of the host", async () => {
    const digest = async (text: string) =>
      new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toHex();
    const { token } = executor.applicationDoor;
    const outcomes = await attack(
      executor,
      `
results = {}
texts = [json.dumps(dict(os.environ)).encode()]
tokens = set()
for process in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            texts.append(open(f"/proc/{process}/{name}", "rb").read())
        except OSError:
            pass
    try:
        memory = open(f"/proc/{process}/mem", "rb", 0)
        maps = open(f"/proc/{process}/maps").read()
    except OSError:
        continue
    for start, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", maps, re.M):
        try:
            memory.seek(int(start, 16))
            tokens |= set(re.findall(rb"[0-9a-f]{64}", memory.read(int(end, 16) - int(start, 16))))
        except (OSError, ValueError, OverflowError):
            pass
hashes = {hashlib.sha256(found).hexdigest() for found in tokens}
results["own token"] = repr(hashlib.sha256(TOKEN.encode()).hexdigest() in hashes)
results["application's token"] = repr("${await digest(token)}" in hashes)
results["secret"] = repr(any(b"of the " + b"host" in text for text in texts))
results["host process"] = repr(os.path.exists("/proc/${Deno.pid}/cmdline")
    and b"deno" in open("/proc/${Deno.pid}/cmdline", "rb").read())
`,
    );
    assertEquals(outcomes, {
      "own token": "True", // so this would find the other one
      "application's token": "False",
      secret: "False",
      "host process": "False",
    });
  });

  await step("reaches no port on which the application's door answers", async () => {
    const { token, port } = executor.applicationDoor;
    const outcomes = await attack(
      executor,
      `
results = {}
ports = open_ports()
for port in ports: # with the right token, which it cannot know
    attempt(str(port), lambda: ask(port, "GET", "/servers", token="${token}", wait=0.3)[0])
results["ports"] = repr(ports)
results["door"] = DOOR
`,
    );
    const { ports = "", door = "", ...answers } = outcomes;
    const open: number[] = JSON.parse(ports);
    assert(open.includes(Number(door)));
    if (linux) assertEquals(open.includes(port), false);
    assertEquals(Object.values(answers).filter((answer) => answer === "200"), []);
    assertEquals(answers[door], "BadStatusLine"); // it speaks no HTTP
    assert(open.length < 20, `Whose ports are these? ${ports}`);
  });

  await step("cannot approve its own call", async () => {
    const before = await siege.calls();
    let asked = 0;
    const code = `
results = {}
body = {"server": "raw", "tool": "count", "arguments": {}}
answers = []
def wait_for_it():
    try:
        # Longer than the server may take to start: who hangs up takes his call back.
        answers.append(call("run", body, wait=60))
    except Exception as error:
        answers.append(repr(error))
threading.Thread(target=wait_for_it, daemon=True).start()
attempt("as tool", lambda: call("approve", {"kind": "tool", "arguments": {}}))
attempt("for another", lambda: call("approve",
    {"kind": "shell", "arguments": {"cmd": "true"}, "server": "raw", "tool": "count"}))
attempt("approved", lambda: call("run", {**body, "approved": True}))
attempt("policy", lambda: call("run", {**body, "approval": "allow"}))
attempt("remembered", lambda: call("run", {**body, "remember": {"scope": "always", "match": "tool"}}))
attempt("remembered shell", lambda: call("approve", {"kind": "shell",
    "arguments": {"cmd": "true"}, "remember": {"scope": "always", "match": "tool"}}))
attempt("as its own source", lambda: call("run", {**body, "source": {"line": 1, "text": "harmless()"}}))
attempt("approved in the first line", lambda: call("run", body, approved=True))
for port in open_ports():
    attempt(f"{port}", lambda: ask(port, "GET", "/approval", wait=0.3, headers={
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Protocol": "ipybox.approval.v1",
        })[0])
while not os.path.exists("asked") and not answers:
    time.sleep(0.01)
results["answers"] = repr(answers)
`;
    const outcomes = await attack(executor, code, () => {
      asked++;
      Deno.writeTextFileSync(`${workspace}/asked`, "");
    });
    assertEquals(outcomes.answers, "[]"); // the call still waited for the application
    assertEquals(asked, 1);
    const names = ["as tool", "for another", "approved", "policy", "remembered", "remembered shell"]
      .concat("as its own source", "approved in the first line");
    for (const name of names) assertMatch(outcomes[name] ?? "", /^'refused: /, name);
    assertEquals(Object.values(outcomes).filter((outcome) => outcome === "101"), []);
    assertEquals(await siege.calls(), before);
    assertEquals(await Deno.lstat(`${workspace}/evil`).catch(() => undefined), undefined);
  });

  await step("cannot make the host write through a link, or follow one", async () => {
    const { result } = await follow(
      executor,
      `
os.symlink("${home}", "images")
from IPython.display import display
display({"image/png": "iVBORw0KGgo="}, raw=True)
display({"text/html": "<b>"}, raw=True)
`,
      () => {},
    );
    assertEquals(result?.images, []);
    assertMatch(result?.text ?? "", /^\[HTML: not saved\]\n/);
    assertEquals([...(await filesBelow(home)).keys()].filter((name) => /png|html/.test(name)), []);
    await executor.execute("os.unlink('images')");
  });
});

Deno.test("hostile code without the sandbox still gets no approval and no token", async (t) => {
  await using siege = await Siege.begin(false);
  const { executor } = siege;
  const step = stepsOf(t);

  await step("finds the application's door, but not its token", async () => {
    const { port, token } = executor.applicationDoor;
    const outcomes = await attack(
      executor,
      `
results = {}
for method, path, body in [
    ("GET", "/approval", None), ("GET", "/servers", None), ("POST", "/reset", {}),
    ("PUT", "/servers/evil", {"command": "touch", "args": ["evil"]}), ("DELETE", "/servers/raw", None),
]:
    attempt(f"{method} {path}", lambda: ask(${port}, method, path, body)[0])
seen = json.dumps(dict(os.environ))
for process in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            seen += open(f"/proc/{process}/{name}", errors="replace").read()
        except OSError:
            pass
results["tokens"] = " ".join(set(re.findall("[0-9a-f]{64}", seen)))
results["secret"] = repr(os.environ.get("${SECRET}"))
`,
    );
    const { tokens = "", secret, ...answers } = outcomes;
    assertEquals(new Set(Object.values(answers)), new Set(["401"]));
    assertEquals(tokens.includes(token), false);
    assertEquals(secret, "None");
    assertEquals(executor.servers, ["raw"]);
  });

  // In it, the folder cannot go.
  await step("has no link followed that it plants at .ipybox", async () => {
    await using own = await TempFolder.create(Deno.env.get("HOME") ?? "/");
    await executor.execute(`
import os, shutil
shutil.rmtree(".ipybox", ignore_errors=True)
os.symlink("${own.path}", ".ipybox")
`);

    const error = await rejection(executor.registerServer("other", rawServer()));

    assert(error instanceof ConfigError, String(error));
    assertStringIncludes(error.message, `${siege.workspace}/.ipybox`);
    assertEquals(await filesBelow(own.path), new Map());
    assertEquals(executor.servers, ["raw"]);
  });
});

Deno.test("a .env that code plants is never used, or followed, one of the user's is once he says so", async () => {
  await using workspace = await TempFolder.create();
  await using home = await TempFolder.create(Deno.env.get("HOME") ?? "/");
  await Deno.writeTextFile(`${home.path}/secrets`, "STOLEN=of the user\n");
  const { path } = workspace;
  const server = { ...rawServer(), env: { KEY: "${PLANTED}", HERE: "${workspaceFolder}" } };
  {
    await using first = await TestExecutor.start({ workspace: path });
    const { executor } = first;
    await executor.execute(`import os; os.symlink("${home.path}/secrets", ".env")`);
    const stealing = { ...rawServer(), env: { KEY: "${STOLEN}" } };
    const error = await rejection(executor.registerServer("raw", stealing));
    assert(error instanceof ConfigError, String(error));
    assertEquals(executor.servers, []);
    await executor.execute("os.remove('.env')\nopen('.env', 'w').write('PLANTED=by code')");
  }
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (message: string) => void warnings.push(message) };
  const own = { workspace: path, servers: { raw: server }, log };
  const start = () => TestExecutor.start({ ...own, sandbox: false }); // the host reads the file
  const call = "import ipybox_runtime as r; print(r.ToolRunner('raw').run_sync('env').text)";
  {
    await using second = await start();
    const error = await rejection(second.executor.execute(call));
    assertStringIncludes(String(error), "${PLANTED}, which is not set");
    assertStringIncludes(warnings.join("\n"), `${path}/.env: ignored PLANTED`);
  }
  await acceptVariables(path, await readVariables(path));
  await using third = await start();
  const { text } = await third.executor.execute(call);
  const { KEY, HERE } = JSON.parse(text ?? "");
  assertEquals([KEY, HERE], ["by code", path]);
});

Deno.test("secrets deep in the workspace stay where they are, and out of sight, however code digs", async () => {
  await using workspace = await TempFolder.create();
  const { path } = workspace;
  await Deno.mkdir(`${path}/a/b`, { recursive: true });
  await Deno.writeTextFile(`${path}/a/b/.env`, "SECRET=of the user");
  const dig = `${TOOLS}
results = {}
os.makedirs("deep/er/and/deeper", exist_ok=True)
attempt("read", lambda: open("a/b/.env").read())
attempt("move the folder", lambda: os.rename("a/b", "deep/er/and/deeper/b"))
attempt("move the one above", lambda: os.rename("a", "deep/er/and/a"))
attempt("remove", lambda: shutil.rmtree("a"))
`;
  for (const session of ["first", "second"]) {
    await using test = await TestExecutor.start({ workspace: path });
    const outcomes = await attack(test.executor, dig);
    for (const [name, outcome] of Object.entries(outcomes)) {
      assertMatch(outcome, DENIED, `${session} session: ${name}: ${outcome}`);
    }
  }
  assertEquals(await Deno.readTextFile(`${path}/a/b/.env`), "SECRET=of the user");
});
