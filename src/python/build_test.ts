import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { stepsOf } from "../../tests/support/steps.ts";
import { SilentIndex } from "../../tests/support/silent_index.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { remoteRecipe, tinyRecipe } from "../../tests/support/tiny_recipe.ts";
import { withUv } from "../../tests/support/uv.ts";
import { ConfigError, EnvironmentNotReadyError } from "../base/errors.ts";
import { buildPythonEnvironment } from "./environment.ts";
import { readManaged } from "./managed.ts";
import type { EnvironmentRecipe } from "./managed.ts";

const OFFLINE = { PIP_RETRIES: "0", UV_HTTP_RETRIES: "0" };

Deno.test("buildPythonEnvironment() builds once, also for two processes, and again only when told to", async (t) => {
  const step = stepsOf(t);
  await using directory = await TempFolder.create();
  await using programs = await TempFolder.create();
  await using index = new SilentIndex();
  const env = { ...OFFLINE, ...await withUv(programs.path) };
  const recipe = await tinyRecipe(directory.path);
  const cacheDir = `${directory.path}/ipybox/python`;
  const lines: string[] = [];
  const onProgress = (line: string) => lines.push(line);
  let leftover = "";

  await step("nothing of a build that is killed is used", async () => {
    await using killed = buildElsewhere(cacheDir, remoteRecipe(index.url), env).spawn();
    await index.asked;
    killed.kill("SIGKILL");
    await killed.output();
    const leftovers = (await directory.list("ipybox/python")).filter((name) =>
      name !== "build.lock"
    );
    assertEquals(leftovers.length, 1);
    leftover = leftovers[0] ?? "";
    await Deno.mkdir(`${cacheDir}/packages/of-a-workspace`, { recursive: true });
    assertEquals(await readManaged(remoteRecipe(index.url), cacheDir), undefined);
  });

  await step("two processes at once build one environment, and clear that away alone", async () => {
    const outputs = await Promise.all(
      [1, 2].map(() => buildElsewhere(cacheDir, recipe, env).output()),
    );

    const [first, second] = outputs.map(({ stdout }) => new TextDecoder().decode(stdout));
    assertEquals(outputs.map(({ success }) => success), [true, true]);
    assertEquals(first, second);
    assertEquals((await readManaged(recipe, cacheDir))?.executable, first);
    assertEquals(await directory.list("ipybox/python/packages"), ["of-a-workspace"]);
    const left = await directory.list("ipybox/python");
    assertEquals(left.length, 4); // the environment, its marker, the lock, the packages
    assert(!left.includes(leftover));
  });

  await step("nobody else can write there, whatever the umask", async () => {
    const modeOf = async (path: string) => ((await Deno.stat(path)).mode ?? 0) & 0o777;
    const environment = await readManaged(recipe, cacheDir);
    assert(environment !== undefined);
    const closed = [`${directory.path}/ipybox`, cacheDir, `${cacheDir}/build.lock`];
    assertEquals(await Promise.all(closed.map(modeOf)), [0o755, 0o755, 0o600]);
    assertEquals(await modeOf(`${environment.prefix}/bin`), 0o755);
    assertEquals(await modeOf(`${environment.prefix}/pyvenv.cfg`), 0o644);
  });

  await step("what is there is not built, unless it is to be", async () => {
    const built = await buildPythonEnvironment({ recipe, cacheDir, onProgress });
    assertEquals(await readManaged(recipe, cacheDir), built);
    assertEquals(lines, []);

    const again = await buildPythonEnvironment({
      recipe,
      cacheDir,
      env,
      rebuild: true,
      onProgress,
    });
    assertEquals(again.packages, { "ipybox-tiny": "1.0" });
    assert(again.managed);
    assert(again.prefix.startsWith(`${cacheDir}/`) && !again.basePrefix.startsWith(cacheDir));
    assertStringIncludes(lines.join("\n"), "Installing");
    assert(again.prefix !== built.prefix);
    assertEquals(await readManaged(recipe, cacheDir), again);
    lines.length = 0;
    assertEquals(await buildPythonEnvironment({ recipe, cacheDir, onProgress }), again);
    assertEquals(lines, []);
  });
});

Deno.test("buildPythonEnvironment() installs nothing without its hash", async () => {
  await using directory = await TempFolder.create();
  await using programs = await TempFolder.create();
  const env = await withUv(programs.path);
  const { requirements, modules } = await tinyRecipe(directory.path);
  const cacheDir = `${directory.path}/cache`;
  const otherHash = requirements.replace(/[0-9a-f]{64}/, "0".repeat(64));
  const noHash = requirements.replace(/ --hash=.*/, "");
  for (
    const [text, said, variables] of [
      [otherHash, "0".repeat(64), env],
      [noHash, "ash", env], // pip: "Hashes", uv: "hash"
      [otherHash, "0".repeat(64), {}], // pip where there is no uv
    ] as const
  ) {
    const recipe = { modules, requirements: text };
    const build = () => buildPythonEnvironment({ recipe, cacheDir, env: variables });
    await assertRejects(build, EnvironmentNotReadyError, said);
  }
  assertEquals(await directory.list("cache"), ["build.lock"]);
});

Deno.test("buildPythonEnvironment() without a network says what the installer said", async () => {
  await using directory = await TempFolder.create();
  await using programs = await TempFolder.create();
  const cacheDir = `${directory.path}/cache`;
  const recipe = remoteRecipe("http://127.0.0.1:1/simple");
  const env = { ...OFFLINE, ...await withUv(programs.path) };

  const building = buildPythonEnvironment({ recipe, cacheDir, env });

  const error = await assertRejects(() => building, EnvironmentNotReadyError, "ipybox-tiny");
  assertStringIncludes(error.fix, "ipybox setup");
  assertEquals(await directory.list("cache"), ["build.lock"]);
});

Deno.test("buildPythonEnvironment() names the package that cannot be imported", async () => {
  await using directory = await TempFolder.create();
  await using programs = await TempFolder.create();
  const { requirements } = await tinyRecipe(directory.path);
  const recipe = { requirements, modules: { ipybox_huge: "ipybox-huge" } };
  const cacheDir = `${directory.path}/cache`;

  const env = await withUv(programs.path);
  const building = buildPythonEnvironment({ recipe, cacheDir, env });

  await assertRejects(() => building, EnvironmentNotReadyError, "No module named 'ipybox_huge'");
  assertEquals(await directory.list("cache"), ["build.lock"]);
});

Deno.test("buildPythonEnvironment() that is aborted ends the installer and leaves nothing", async () => {
  await using directory = await TempFolder.create();
  await using index = new SilentIndex();
  const cacheDir = `${directory.path}/cache`;
  const interrupt = new AbortController();
  const { signal } = interrupt;

  const building = buildPythonEnvironment({ recipe: remoteRecipe(index.url), cacheDir, signal });
  index.asked.then(() => interrupt.abort(new Error("no more")));

  await assertRejects(() => building, Error, "no more");
  await index.hungUp;
  assertEquals(await directory.list("cache"), ["build.lock"]);
});

Deno.test("buildPythonEnvironment() installs nothing from a cache that executed code could change", async () => {
  await using workspace = await TempFolder.create();
  await using directory = await TempFolder.create();
  await Deno.mkdir(`${workspace.path}/.ipybox`);
  const recipe = await tinyRecipe(directory.path);
  const env = { UV_CACHE_DIR: `${workspace.path}/cache` };
  await assertRejects(
    () => buildPythonEnvironment({ recipe, cacheDir: `${directory.path}/cache`, env }),
    ConfigError,
    `as UV_CACHE_DIR: code of the workspace ${workspace.path} could replace`,
  );
});

function buildElsewhere(
  cacheDir: string,
  recipe: EnvironmentRecipe,
  env: Readonly<Record<string, string>>,
): Deno.Command {
  const script = new URL("../../tests/fixtures/build_environment.ts", import.meta.url).pathname;
  const args = [Deno.execPath(), "run", "-A", script, cacheDir, JSON.stringify(recipe)];
  return new Deno.Command("/bin/sh", {
    args: ["-c", 'umask 000 && exec "$@"', "sh", ...args],
    env,
    stdout: "piped",
    stderr: "piped",
  });
}
