// deno-lint-ignore-file no-console -- a script reports to its caller
/**
 * `deno task package [js] [npm] [mcpb] [--to DIR]`: makes the distribution packages of ipybox, or
 * some of them, in `dist/` or another folder.
 *
 * - js: `ipybox.js`, the command line as one file for Deno
 * - npm: `ipybox.tgz`, the npm package, with the command, the modules for Deno, their types, and Deno
 *   itself
 * - mcpb: `ipybox-VERSION.mcpb`, the bundle for Claude Desktop, and the `ipybox.js` that goes into it
 *
 * @module
 */
import { cp } from "node:fs/promises";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL as toFileUrl } from "node:url";
import { parseArgs } from "node:util";
import config from "../deno.json" with { type: "json" };
import { ownProgram, type ProgramPath, requireProgram } from "../src/process/program.ts";
import { runProgram } from "../src/process/run_program.ts";

const root = new URL("../", import.meta.url);
const PARTS = ["js", "npm", "mcpb"];
const { values: { to }, positionals: asked } = parseArgs({
  args: Deno.args,
  options: { to: { type: "string" } },
  allowPositionals: true,
});
for (const part of asked) {
  if (PARTS.includes(part)) continue;
  console.error(`Cannot make "${part}": use ${PARTS.join(", ")}, or nothing for all`);
  Deno.exit(2);
}
const dist = to === undefined ? new URL("dist/", root) : toFileUrl(`${resolve(to)}/`);
const { version } = config;

/** Bundles the command line into one file. */
async function bundle(): Promise<URL> {
  const file = new URL("ipybox.js", dist);
  say("Bundling the command line into ipybox.js");
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
  say("Bundling the modules of the npm package");
  await run(ownProgram(), ["bundle", ...split, ...Object.values(config.exports)]);
  say("Making their types");
  await declareTypes(lib);
  say("Packing the npm package");
  const packed = ["pack", "--silent", "--pack-destination", fileURLToPath(dist)];
  const name = (await run(await requireProgram("npm"), [...packed, folder.pathname])).trim();
  const file = new URL("ipybox.tgz", dist);
  await Deno.rename(new URL(name, dist), file);
  return file;
}

/**
 * Writes the types of the modules beside their code: `deno bundle` makes none, but `deno pack`
 * does, for JSR.
 */
async function declareTypes(lib: string): Promise<void> {
  const whole = await Deno.makeTempDir({ prefix: "ipybox-types-" });
  try {
    const options = ["--quiet", "--allow-dirty", "--no-source-maps", "--output", `${whole}/it.tgz`];
    await run(ownProgram(), ["pack", ...options]);
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
  say("Packing the bundle for Claude Desktop, with a tool from npm");
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

/** Reports progress, separate from the results: a step can take a minute. */
function say(line: string): void {
  console.error(line);
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

/** Copies a manifest with the version, which is only in `deno.json`. */
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
const wanted = (part: string) => asked.length === 0 || asked.includes(part);
const made: URL[] = [];
if (wanted("js") || wanted("mcpb")) made.push(await bundle());
const [ipybox] = made;
if (wanted("npm")) made.push(await npmPackage());
if (wanted("mcpb") && ipybox !== undefined) made.push(await mcpBundle(ipybox));
for (const file of made) console.log(file.pathname);
