import { assertEquals, assertStringIncludes } from "@std/assert";
import { ipybox } from "../support/cli.ts";
import { commandsIn, inThisProcess } from "../support/command_io.ts";
import { testPython } from "../support/python.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("--placement takes a file of the user's, and none that code could have written", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  await Deno.mkdir(`${path}/work`);
  const placement = JSON.stringify({
    type: "command",
    command: ["/usr/bin/env"],
    bubblewrap: true,
  });
  for (const file of [`${path}/place.json`, `${path}/work/place.json`]) {
    await Deno.writeTextFile(file, placement);
  }
  await Deno.writeTextFile(`${path}/bad.json`, '{"type": "ssh"}');
  const lineOf = (where: string, ...args: string[]) => {
    const options = ["--workspace", `${path}/work`, "--python", testPython(), ...args];
    return ["run", "-c", "print(6 * 7)", "--placement", where, ...options];
  };
  const run = (...given: Parameters<typeof lineOf>) => inThisProcess(lineOf(...given));

  assertEquals(await run(`${path}/place.json`), { code: 0, stdout: "42\n", stderr: "" });
  const inside = await run(`${path}/work/place.json`);
  assertEquals(inside.code, 2);
  assertStringIncludes(inside.stderr, `could have written it`);
  assertEquals((await inThisProcess(["trust", "--yes", `${path}/work`])).code, 0);
  assertEquals((await run(`${path}/work/place.json`)).stdout, "42\n");
  await Deno.writeTextFile(`${path}/work/place.json`, placement.replace("env", "false"));
  const changed = await ipybox(lineOf(`${path}/work/place.json`));
  assertEquals(changed.stdout, "42\n"); // by what was accepted
  assertStringIncludes(changed.stderr, "has changed since you used it last");
  const bad = await run(`${path}/bad.json`);
  assertStringIncludes(bad.stderr, "host");
  const unknown = await run("kubernets");
  assertEquals(unknown.code, 2);
  assertStringIncludes(unknown.stderr, "docker, podman, kubernetes, ssh:HOST or a JSON file");
  const both = await run(`${path}/place.json`, "--sandbox-config", "/x.json");
  assertStringIncludes(both.stderr, "--placement and --sandbox-config cannot be combined");
});

Deno.test("a session elsewhere is detached from, listed, attached to without saying where, and ended", async () => {
  await using folder = await TempFolder.create();
  const { path } = folder;
  await Deno.mkdir(`${path}/work`);
  const command = commandsIn(`${path}/work`);
  const placement = { type: "command", command: ["/usr/bin/env"], bubblewrap: true };
  await Deno.writeTextFile(`${path}/place.json`, JSON.stringify(placement));
  const code = "import time; time.sleep(.5); print(6 * 7)";
  const where = ["--placement", `${path}/place.json`, "--python", testPython()];
  const { code: exit, stdout, stderr } = await ipybox([
    ...["run", "-c", code, "--detach", "--workspace", `${path}/work`, ...where],
  ]);
  assertEquals([exit, stderr], [0, ""]);
  const id = stdout.trim();
  const listed = await command(["sessions"]);
  assertStringIncludes(listed.stdout, `in ${await Deno.realPath(`${path}/work`)}; at /usr/bin/env`);
  assertEquals(await inThisProcess(["attach", id, "--end"]), {
    code: 0,
    stdout: "42\n",
    stderr: "",
  });
  assertEquals((await command(["sessions"])).stdout, "");
});

Deno.test("ipybox mcp --http needs a placement that keeps sessions apart", async () => {
  await using folder = await TempFolder.create();
  const args = ["mcp", "--http", "0", "--placement", "ssh:nowhere"];
  const { code, stderr } = await inThisProcess(args, { workspace: folder.path });
  assertEquals(code, 2);
  assertStringIncludes(stderr, "docker, podman or kubernetes");
});
