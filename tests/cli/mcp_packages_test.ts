import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { exists } from "../support/files.ts";
import { MemoryGroup } from "../support/memory_group.ts";
import { McpHost } from "../support/mcp_client.ts";
import { runPython } from "../support/run_python.ts";
import { SilentIndex } from "../support/silent_index.ts";
import { stepsOf } from "../support/steps.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("install_package installs in a sandbox of its own", async (t) => {
  await using workspace = await TempFolder.create();
  await using outside = await TempFolder.create();
  await Deno.writeTextFile(`${outside.path}/secret`, "the secret");
  await Deno.writeTextFile(`${workspace.path}/notes`, "the notes");
  const mark = `.ipybox-test-${crypto.randomUUID()}`;
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await hostileSource(outside.path, { workspace: workspace.path, mark, port: listener.addr.port });
  const questions: string[] = [];
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path],
    env: { PIP_FIND_LINKS: `${outside.path}/links` },
    answer: (question) => {
      questions.push(question);
      return "deny";
    },
  });
  const step = stepsOf(t);
  const install = (name: string) => host.call("install_package", { package_name: name });

  await step("a wheel, which can be imported at once and after a reset", async () => {
    await host.execute("import json"); // the kernel has looked for packages before
    const { isError, text } = await install("six==1.17.0");
    assertEquals({ isError, text }, { isError: false, text: "Installed six 1.17.0" });
    const version = "import six; print(six.__version__)";
    assertEquals(await host.execute(version), "1.17.0");
    await host.call("reset");
    assertEquals(await host.execute(version), "1.17.0");
  });

  await step("and tells what it does meanwhile", async () => {
    const told: string[] = [];
    const { isError } = await host.call("install_package", { package_name: "iniconfig==2.0.0" }, {
      onProgress: ({ message = "" }) => void told.push(message),
    });
    assertEquals(isError, false);
    assertStringIncludes(told[0] ?? "", "Installing iniconfig==2.0.0");
  });

  await step("says what went wrong", async () => {
    const { isError, text } = await install("six==0.0.0");
    assertEquals(isError, true);
    assertStringIncludes(text, "six==0.0.0");
  });

  await step("asks for a repository, and names its host", async () => {
    const { isError, text } = await install("git+https://git.example.org/owner/name@v1");
    assertEquals(isError, true);
    assertStringIncludes(text, "did not allow");
    const [question = ""] = questions.splice(0);
    assertStringIncludes(question, "can reach git.example.org:");
    assertStringIncludes(question, "git+https://git.example.org/owner/name@v1");
  });

  await step("builds a source package, whose code is shut in", async () => {
    const { isError, text } = await install("hostile-source==1.0");
    assertEquals(isError, false, text);
    const results: unknown = JSON.parse(
      await host.execute("import hostile_source; print(hostile_source.RESULTS)"),
    );
    assertEquals(results, {
      "read a file outside": "refused",
      "read the workspace": "refused",
      "write to the workspace": "refused",
      "connect to the host": "refused",
      "reach another host": "forbidden",
      // The system limits an ordinary user's processes one by one, and root's only in a group.
      "start threads": Deno.uid() === 0 && await MemoryGroup.whyNot() ? "1200" : "limited",
    });
    // Elsewhere it can write, but nothing of that is there in the end.
    const after = await Array.fromAsync(Deno.readDir(outside.path), ({ name }) => name);
    assertEquals(after.toSorted(), ["links", "secret", "source"]);
    assertEquals(await exists(`${Deno.env.get("HOME")}/${mark}`), false);
    assertEquals(questions, []);
  });
});

Deno.test("install_package ends its installer when it is cancelled", async () => {
  await using workspace = await TempFolder.create();
  await using index = new SilentIndex();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--no-sandbox"],
    env: { PIP_INDEX_URL: index.url },
  });
  const cancel = new AbortController();
  const call = host.call("install_package", { package_name: "iniconfig" }, {
    signal: cancel.signal,
  });
  await index.asked;
  cancel.abort(new Error("the user pressed Escape"));
  await assertRejects(() => call);
  await index.hungUp;
});

/** What a source package attacks, besides the folder that it lies in. */
interface Targets {
  readonly workspace: string;
  /** The name of a file in the home folder. */
  readonly mark: string;
  /** A port that the host listens on. */
  readonly port: number;
}

/** Makes a source package that tries, while it is built, what it must not be able to do. */
async function hostileSource(folder: string, targets: Targets): Promise<void> {
  const source = `${folder}/source/hostile_source-1.0`;
  await Deno.mkdir(source, { recursive: true });
  await Deno.mkdir(`${folder}/links`);
  await Deno.writeTextFile(
    `${source}/pyproject.toml`,
    `[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "hostile-source"
version = "1.0"
`,
  );
  await Deno.writeTextFile(`${source}/PKG-INFO`, METADATA);
  await Deno.writeTextFile(`${source}/backend.py`, backend(folder, targets));
  const { success, stderr } = await new Deno.Command("tar", {
    args: [
      "-czf",
      `${folder}/links/hostile_source-1.0.tar.gz`,
      "-C",
      `${folder}/source`,
      "hostile_source-1.0",
    ],
  }).output();
  assert(success, new TextDecoder().decode(stderr));
}

const METADATA = "Metadata-Version: 2.1\nName: hostile-source\nVersion: 1.0\n";

/** A build backend without any dependency. */
function backend(outside: string, { workspace, mark, port }: Targets): string {
  return `
import json, os, pwd, socket, urllib.request, zipfile

HOME = pwd.getpwuid(os.getuid()).pw_dir

def attempt(action):
    try:
        action()
        return "done"
    except BaseException as error:
        # By the sandbox's proxy, and not because nobody is there. A path may have these digits, too.
        return "forbidden" if " 403 " in f"{error} " else "refused"

def threads():
    """How many threads can be started, up to more than there may be."""
    import threading
    threading.stack_size(2**18)  # 1024 of 8 MiB are all of its memory: a thread that has none hangs
    go, started = threading.Event(), []
    try:
        while len(started) < 1200:
            started.append(threading.Thread(target=go.wait, daemon=True))
            started[-1].start()
    except RuntimeError:
        return "limited"
    finally:
        go.set()
    return "1200"

def results():
    attempt(lambda: open("${outside}/written", "w").close())
    attempt(lambda: open(HOME + "/${mark}", "w").close())
    return {
        "read a file outside": attempt(lambda: open("${outside}/secret").read()),
        "read the workspace": attempt(lambda: open("${workspace}/notes").read()),
        "write to the workspace": attempt(lambda: open("${workspace}/written", "w").close()),
        "connect to the host": attempt(lambda: socket.create_connection(("127.0.0.1", ${port}), 2)),
        "reach another host": attempt(
            lambda: urllib.request.urlopen("https://example.org/", timeout=10).read()
        ),
        "start threads": threads(),
    }

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = "hostile_source-1.0-py3-none-any.whl"
    files = {
        "hostile_source.py": "RESULTS = " + repr(json.dumps(results())),
        "hostile_source-1.0.dist-info/METADATA": ${JSON.stringify(METADATA)},
        "hostile_source-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    record = "hostile_source-1.0.dist-info/RECORD"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        wheel.writestr(record, "".join(f"{path},,\\n" for path in [*files, record]))
    return name
`;
}

Deno.test("the password of a package index stays out of reach of what is installed", async () => {
  await using workspace = await TempFolder.create();
  await using outside = await TempFolder.create();
  const mark = `.ipybox-test-${crypto.randomUUID()}`;
  await hostileSource(outside.path, { workspace: workspace.path, mark, port: 9 });
  await wheelWithBuild(`${outside.path}/links`);
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path],
    env: {
      PIP_FIND_LINKS: `${outside.path}/links`,
      PIP_EXTRA_INDEX_URL: "http://someone:hunter2@127.0.0.1:9/simple",
      PIP_RETRIES: "0",
    },
    answer: () => "allow",
  });
  const repository = "git+https://git.example.org/owner/name@v1";
  for (const name of ["hostile-source==1.0", "innocent==1.0", repository]) {
    const { isError, text } = await host.call("install_package", { package_name: name });
    assertEquals(isError, true);
    assertStringIncludes(text, "Only wheels can be installed here");
    assertEquals(text.includes("hunter2"), false);
  }
  const { isError, text } = await host.call("install_package", { package_name: "six==1.17.0" });
  assertEquals(isError, false, text);
});

/** Makes a wheel that depends on the hostile source package at its address, which no index is asked for. */
async function wheelWithBuild(links: string): Promise<void> {
  const { success, stderr } = await runPython([
    "-c",
    `
import zipfile
of = "innocent-1.0.dist-info"
with zipfile.ZipFile("${links}/innocent-1.0-py3-none-any.whl", "w") as wheel:
    wheel.writestr(f"{of}/METADATA", """Metadata-Version: 2.1
Name: innocent
Version: 1.0
Requires-Dist: hostile-source @ file://${links}/hostile_source-1.0.tar.gz
""")
    wheel.writestr(f"{of}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(f"{of}/RECORD", "")
`,
  ]);
  assert(success, stderr);
}
