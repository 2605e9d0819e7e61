import { assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { testIf } from "../support/skip.ts";
import { TempFolder } from "../support/temp_folder.ts";

// There may be no Docker engine where tests run: these are the steps that work without one.

const root = fileURLToPath(new URL("../../", import.meta.url));

async function output(
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const { code, stdout, stderr } = await new Deno.Command(command, {
    args: [...args],
    env: { ...env },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

Deno.test("docker-build.sh builds for the user who runs it, and never for root", async () => {
  await using bin = await TempFolder.create();
  await Deno.writeTextFile(`${bin.path}/docker`, '#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n', {
    mode: 0o755,
  });
  const path = `${bin.path}:${Deno.env.get("PATH")}`;
  const uid = Deno.uid() === 0 ? 1234 : Deno.uid();
  const gid = Deno.uid() === 0 ? 2345 : Deno.gid();

  const built = await output("bash", [`${root}docker-build.sh`, "mine"], {
    PATH: path,
    SUDO_UID: String(uid),
    SUDO_GID: String(gid),
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
  const copied = await output("cp", ["-a", "/etc/.", `${folder.path}/etc`]);
  assertEquals(copied.code, 0, copied.stderr);
  // As in the base image: no ordinary users yet.
  for (const file of ["passwd", "group", "shadow", "gshadow"]) {
    const path = `${folder.path}/etc/${file}`;
    const lines = (await Deno.readTextFile(path)).split("\n");
    const system = lines.filter((line) => !/^[^:]*:[^:]*:[1-9]\d{3}:/.test(line));
    await Deno.writeTextFile(path, system.join("\n"));
  }
  await Deno.copyFile(`${root}packaging/docker/user.sh`, `${folder.path}/bin/make-user`);
  return await output("bwrap", [
    ...["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/var/mail"],
    ...["--bind", `${folder.path}/etc`, "/etc", "--bind", `${folder.path}/home`, "/home"],
    ...["--ro-bind", `${folder.path}/bin`, "/usr/local/sbin"],
    ...["sh", "-ec", script],
  ], { PATH: "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin" });
}
