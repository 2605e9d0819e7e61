import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { programOf } from "../../src/process/program.ts";
import { engine, engineName, whyNoImage } from "../support/engine.ts";
import { McpHost } from "../support/mcp_client.ts";
import { runProgram } from "../support/program.ts";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

Deno.test("docker-build.sh builds for the user who runs it, and never for root", async () => {
  await using bin = await TempFolder.create();
  await Deno.writeTextFile(`${bin.path}/docker`, '#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n', {
    mode: 0o755,
  });
  const path = `${bin.path}:${Deno.env.get("PATH")}`;
  const uid = Deno.uid() === 0 ? 1234 : Deno.uid();
  const gid = Deno.uid() === 0 ? 2345 : Deno.gid();

  const built = await runProgram("bash", [`${root}docker-build.sh`, "mine"], {
    env: { PATH: path, SUDO_UID: String(uid), SUDO_GID: String(gid) },
  });

  assertEquals(built.stdout.trim().split("\n"), [
    root.replace(/\/$/, ""),
    ...["build", "--build-arg", `UID=${uid}`, "--build-arg", `GID=${gid}`, "--tag", "mine", "."],
  ]);
});

testIf(Deno.uid() === 0, "only root can make users", {
  name: "the image's user gets the ids that are asked for, also where the base image has them",
  fn: async () => {
    for (const [uid, gid] of [[1000, 1000], [4321, 4322], [4321, 0]] as const) {
      const { code, stdout, stderr } = await inImage(`
        groupadd --gid 1000 node && useradd --uid 1000 --gid 1000 --create-home node
        make-user ${uid} ${gid} && id ipybox && stat --format %u:%g ~ipybox`);
      assertEquals(code, 0, stderr);
      assertStringIncludes(stdout, `uid=${uid}(ipybox) gid=${gid}(`);
      assertStringIncludes(stdout, `\n${uid}:${gid}\n`);
    }
    assertEquals((await inImage("make-user 0 0")).code, 2);
    assertEquals((await inImage("make-user 1000 ''")).code, 2);
  },
});

/** Runs a script where it may make users, in a copy of this system's list of them. */
async function inImage(
  script: string,
): Promise<{ code: number; stdout: string; stderr: string }> {
  await using folder = await TempFolder.create();
  for (const name of ["etc", "home", "bin"]) await Deno.mkdir(`${folder.path}/${name}`);
  const copied = await runProgram("cp", ["-a", "/etc/.", `${folder.path}/etc`]);
  assertEquals(copied.code, 0, copied.stderr);
  // As in the base image: no ordinary users yet.
  for (const file of ["passwd", "group", "shadow", "gshadow"]) {
    const path = `${folder.path}/etc/${file}`;
    const lines = (await Deno.readTextFile(path)).split("\n");
    const system = lines.filter((line) => !/^[^:]*:[^:]*:[1-9]\d{3}:/.test(line));
    await Deno.writeTextFile(path, system.join("\n"));
  }
  await Deno.copyFile(`${root}packaging/docker/user.sh`, `${folder.path}/bin/make-user`);
  return await runProgram("bwrap", [
    ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/var/mail"],
    ...["--bind", `${folder.path}/etc`, "/etc", "--bind", `${folder.path}/home`, "/home"],
    ...["--ro-bind", `${folder.path}/bin`, "/usr/local/sbin"],
    ...["sh", "-ec", script],
  ], { env: { PATH: "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin" } });
}

const IMAGE = "ipybox-of-tests";

/** What the project's image is made of. */
const base = /^FROM (\S+)$/m.exec(await Deno.readTextFile(`${root}Dockerfile`))?.[1] ?? "";
const why = await whyNoImage(base, "pull it, and the image is built of it and tried");

testIf(why === undefined, why ?? "", {
  name: "the image is built, and its container runs code in the sandbox as the documentation says",
  fn: async () => {
    await using folder = await TempFolder.create();
    const [uid, gid] = Deno.uid() === 0 ? [1000, 1000] : [Deno.uid(), Deno.gid()];
    await Deno.chown(folder.path, uid, gid);
    const built = await engine(
      ...["build", "--network", "host", "--tag", IMAGE],
      ...["--build-arg", `UID=${uid}`, "--build-arg", `GID=${gid}`, root],
    );
    assert(built.success, built.text);
    const volume = `${IMAGE}-${crypto.randomUUID()}`;
    await using parts = new AsyncDisposableStack();
    parts.defer(async () => void await engine("volume", "rm", "--force", volume));
    const documented = await documentedArgs({ workspace: folder.path, volume });
    const start = async (args: readonly string[], ...own: string[]) => {
      const program = { command: await programOf(engineName), args };
      return await McpHost.start({ program, args: own });
    };
    {
      await using host = await start(documented);
      const text = await host.execute(`
import os, pathlib, socket
def attempt(act):
    try:
        return str(act())
    except OSError as error:
        return type(error).__name__
pathlib.Path("made.txt").write_text("by code")
print(os.getcwd(), os.getuid())
print(attempt(lambda: socket.create_connection(("1.1.1.1", 53), 1)))
print(attempt(lambda: open("/app/x", "w")), attempt(lambda: os.listdir("/home/ipybox/.local")))`);
      assertMatch(text, new RegExp(`^/app/workspace ${uid}\\n\\w+Error\\n\\w+Error \\w+Error`));
      const made = await Deno.stat(`${folder.path}/made.txt`);
      assertEquals([made.uid, made.gid], [uid, gid]);
    }
    const closed = documented.filter((arg, index) =>
      arg !== "--security-opt" && documented[index - 1] !== "--security-opt"
    );
    {
      await using host = await start(closed);
      const { isError, text } = await host.call("execute_ipython_cell", { code: "6 * 7" });
      assertEquals(isError, true);
      assertMatch(text, /sandbox/);
    }
    await using host = await start(closed, "--no-sandbox");
    assertEquals((await host.execute("6 * 7")).trim(), "42");
  },
});

/** The arguments of `docker` that the documentation has, for a workspace and a volume of tests. */
async function documentedArgs(
  { workspace, volume }: { readonly workspace: string; readonly volume: string },
): Promise<readonly string[]> {
  const text = await Deno.readTextFile(`${root}docs/placements.md`);
  const command = /```sh\ndocker (run [^`]* ipybox)\n```/.exec(text)?.[1] ?? "";
  const args = command.replaceAll("\\\n", "").split(/ +/);
  return args.map((arg) =>
    arg === "ipybox"
      ? IMAGE
      : arg.replace("/path/to/workspace:", `${workspace}:`).replace(/^ipybox:/, `${volume}:`)
  );
}
