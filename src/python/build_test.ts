import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SilentIndex } from "../../tests/support/silent_index.ts";
import { TempDirectory } from "../../tests/support/temp_directory.ts";
import { remoteRecipe, tinyRecipe } from "../../tests/support/tiny_recipe.ts";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { buildPythonEnvironment, readManagedEnvironment } from "./environment.ts";
import type { EnvironmentRecipe } from "./managed.ts";

const OFFLINE = { PIP_RETRIES: "0", UV_HTTP_RETRIES: "0" };

Deno.test("buildPythonEnvironment() builds once, and again only when it is told to", async () => {
  await using directory = await TempDirectory.create();
  const recipe = await tinyRecipe(directory.path);
  const cacheDir = `${directory.path}/cache`;
  const lines: string[] = [];
  const onProgress = (line: string) => lines.push(line);

  const built = await buildPythonEnvironment({ recipe, cacheDir, onProgress });

  assertEquals(built.packages, { "ipybox-tiny": "1.0" });
  assert(built.managed);
  assert(built.prefix.startsWith(`${cacheDir}/`) && !built.basePrefix.startsWith(cacheDir));
  assertStringIncludes(lines.join("\n"), "Installing");
  lines.length = 0;
  assertEquals(await buildPythonEnvironment({ recipe, cacheDir, onProgress }), built);
  assertEquals(await readManagedEnvironment(recipe, cacheDir), built);
  assertEquals(lines, []);
  const again = await buildPythonEnvironment({ recipe, cacheDir, rebuild: true });
  assert(again.prefix !== built.prefix);
  assertEquals(await readManagedEnvironment(recipe, cacheDir), again);
});

Deno.test("buildPythonEnvironment() installs nothing without its hash", async () => {
  await using directory = await TempDirectory.create();
  const { requirements, modules } = await tinyRecipe(directory.path);
  const cacheDir = `${directory.path}/cache`;
  const build = (text: string) => () =>
    buildPythonEnvironment({ recipe: { modules, requirements: text }, cacheDir });

  const otherHash = build(requirements.replace(/[0-9a-f]{64}/, "0".repeat(64)));
  await assertRejects(otherHash, EnvironmentNotReadyError, "0".repeat(64));
  const noHash = build(requirements.replace(/ --hash=.*/, ""));
  await assertRejects(noHash, EnvironmentNotReadyError, "ash"); // pip: "Hashes", uv: "hash"

  assertEquals(await directory.list("cache"), ["build.lock"]);
});

Deno.test("buildPythonEnvironment() without a network says what the installer said", async () => {
  await using directory = await TempDirectory.create();
  const cacheDir = `${directory.path}/cache`;
  const recipe = remoteRecipe("http://127.0.0.1:1/simple");

  const building = buildPythonEnvironment({ recipe, cacheDir, env: OFFLINE });

  const error = await assertRejects(() => building, EnvironmentNotReadyError, "ipybox-tiny");
  assertStringIncludes(error.fix, "ipybox setup");
  assertEquals(await directory.list("cache"), ["build.lock"]);
});

Deno.test("buildPythonEnvironment() names the package that cannot be imported", async () => {
  await using directory = await TempDirectory.create();
  const { requirements } = await tinyRecipe(directory.path);
  const recipe = { requirements, modules: { ipybox_huge: "ipybox-huge" } };
  const cacheDir = `${directory.path}/cache`;

  const building = buildPythonEnvironment({ recipe, cacheDir });

  await assertRejects(() => building, EnvironmentNotReadyError, "No module named 'ipybox_huge'");
  assertEquals(await directory.list("cache"), ["build.lock"]);
});

Deno.test("buildPythonEnvironment() that is aborted ends the installer and leaves nothing", async () => {
  await using directory = await TempDirectory.create();
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

Deno.test("buildPythonEnvironment() in two processes at once builds one environment", async () => {
  await using directory = await TempDirectory.create();
  const recipe = await tinyRecipe(directory.path);
  const cacheDir = `${directory.path}/cache`;

  const outputs = await Promise.all([1, 2].map(() => buildElsewhere(cacheDir, recipe).output()));

  const [first, second] = outputs.map(({ stdout }) => new TextDecoder().decode(stdout));
  assertEquals(outputs.map(({ success }) => success), [true, true]);
  assertEquals(first, second);
  assertEquals((await readManagedEnvironment(recipe, cacheDir))?.executable, first);
  assertEquals((await directory.list("cache")).length, 3); // the environment, its marker, the lock
});

Deno.test("buildPythonEnvironment() clears away what a killed build left, and nothing else", async () => {
  await using directory = await TempDirectory.create();
  await using index = new SilentIndex();
  const cacheDir = `${directory.path}/cache`;
  const recipe = await tinyRecipe(directory.path);
  await using killed = buildElsewhere(cacheDir, remoteRecipe(index.url)).spawn();
  await index.asked;
  killed.kill("SIGKILL");
  await killed.output();
  const leftovers = (await directory.list("cache")).filter((name) => name !== "build.lock");
  assertEquals(leftovers.length, 1);
  await Deno.mkdir(`${cacheDir}/packages/of-a-workspace`, { recursive: true });
  assertEquals(await readManagedEnvironment(remoteRecipe(index.url), cacheDir), undefined);

  const built = await buildPythonEnvironment({ recipe, cacheDir });

  assertEquals(await directory.list("cache/packages"), ["of-a-workspace"]);
  const left = await directory.list("cache");
  assertEquals(left.length, 4);
  assert(!left.includes(leftovers[0] ?? ""));
  assertEquals(await readManagedEnvironment(recipe, cacheDir), built);
});

function buildElsewhere(cacheDir: string, recipe: EnvironmentRecipe): Deno.Command {
  const script = new URL("../../tests/fixtures/build_environment.ts", import.meta.url).pathname;
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", script, cacheDir, JSON.stringify(recipe)],
    env: OFFLINE,
    stdout: "piped",
    stderr: "piped",
  });
}
