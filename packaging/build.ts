// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * `deno task package [DIR]`: makes what ipybox is distributed as, in `dist/` or another folder.
 *
 * - `ipybox.js`: the command line as one file for Deno
 * - `ipybox.tgz`: the npm package, with the command, the modules for Deno, their types, and Deno itself
 * - `ipybox-VERSION.mcpb`: the bundle for Claude Desktop
 *
 * @module
 */
import { cp } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL as toFileUrl } from "node:url";
import config from "../deno.json" with { type: "json" };
import { ownProgram, type ProgramPath, requireProgram } from "../src/process/program.ts";
import { runProgram } from "../src/process/run_program.ts";

const root = new URL("../", import.meta.url);
const dist = Deno.args[0] === undefined
  ? new URL("dist/", root)
  : toFileUrl(`${resolve(Deno.args[0])}/`);
const { version } = config;

/** Bundles the command line into one file. */
async function bundle(): Promise<URL> {
  const file = new URL("ipybox.js", dist);
  await run(ownProgram(), ["bundle", "--quiet", "--output", file.pathname, "cli.ts"]);
  return file;
}

/** Packs the npm package: command and modules share their code, as chunks in `lib/`. */
async function npmPackage(): Promise<URL> {
  const folder = await emptyFolder("npm/");
  await copyInto(folder, [at("packaging/npm/ipybox.mjs"), at("README.md"), at("LICENSE")]);
  await withVersion(at("packaging/npm/package.json"), new URL("package.json", folder));
  const lib = fileURLToPath(new URL("lib/", folder));
  const split = ["--quiet", "--code-splitting", "--outdir", lib];
  await run(ownProgram(), ["bundle", ...split, ...Object.values(config.exports)]);
  await declareTypes(lib);
  const packed = ["pack", "--silent", "--pack-destination", fileURLToPath(dist)];
  const name = (await run(await requireProgram("npm"), [...packed, folder.pathname])).trim();
  const file = new URL("ipybox.tgz", dist);
  await Deno.rename(new URL(name, dist), file);
  return file;
}

/** Writes the types of the modules beside their code: `deno bundle` makes none, `deno pack` those of JSR. */
async function declareTypes(lib: string): Promise<void> {
  const whole = await Deno.makeTempDir({ prefix: "ipybox-types-" });
  try {
    const options = ["--quiet", "--allow-dirty", "--no-source-maps", "--output", `${whole}/it.tgz`];
    const others = "--ignore=benchmarks,dist,docs,examples,packaging,plugin,templates,tests";
    await run(ownProgram(), ["pack", ...options, others]);
    await run(await requireProgram("tar"), ["-xzf", `${whole}/it.tgz`, "-C", whole]);
    const filter = async (from: string) =>
      from.endsWith(".d.ts") || (await Deno.lstat(from)).isDirectory;
    await cp(`${whole}/package`, lib, { recursive: true, filter });
  } finally {
    await Deno.remove(whole, { recursive: true });
  }
}

/** Packs the MCP bundle. */
async function mcpBundle(ipybox: URL): Promise<URL> {
  const folder = await emptyFolder("mcpb/");
  await copyInto(folder, [ipybox, at("README.md"), at("LICENSE")]);
  await withVersion(at("packaging/mcpb/manifest.json"), new URL("manifest.json", folder));
  const file = new URL(`ipybox-${version}.mcpb`, dist);
  // Its tool checks the manifest before it packs.
  await run(await requireProgram("npx"), [
    "-y",
    "@anthropic-ai/mcpb@2.1.2",
    "pack",
    folder.pathname,
    file.pathname,
  ]);
  return file;
}

async function emptyFolder(name: string): Promise<URL> {
  const folder = new URL(name, dist);
  await Deno.remove(folder, { recursive: true }).catch((error: unknown) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
  await Deno.mkdir(folder, { recursive: true });
  return folder;
}

async function copyInto(folder: URL, files: readonly URL[]): Promise<void> {
  for (const file of files) {
    await Deno.copyFile(file, new URL(file.pathname.split("/").at(-1) ?? "", folder));
  }
}

/** The version stands in `deno.json` only. */
async function withVersion(from: URL, to: URL): Promise<void> {
  const manifest: unknown = JSON.parse(await Deno.readTextFile(from));
  await Deno.writeTextFile(to, JSON.stringify(Object.assign({}, manifest, { version }), null, 2));
}

async function run(program: ProgramPath, args: readonly string[]): Promise<string> {
  const { success, stdout, stderr } = await runProgram(program, { args, cwd: fileURLToPath(root) });
  if (success) return stdout;
  throw new Error(`${program} ${args.join(" ")} failed:\n${stdout}${stderr}`);
}

function at(path: string): URL {
  return new URL(path, root);
}

await Deno.mkdir(dist, { recursive: true });
const ipybox = await bundle();
for (const made of [ipybox, await npmPackage(), await mcpBundle(ipybox)]) {
  console.log(made.pathname);
}
