import { join, relative, resolve } from "node:path";
import { z } from "zod";
import { asset } from "../../assets/mod.ts";
import { EnvironmentNotReadyError } from "../../base/errors.ts";
import { PrivateFolder } from "../../files/private_folder.ts";
import { typeCheckerOf } from "../../python/environment.ts";
import { programOf } from "../../process/program.ts";
import { runProgram } from "../../process/run_program.ts";
import { isPlainFolder, readInside } from "../../files/safe.ts";
import { isOwnProgram } from "../../sandbox/workspace.ts";

export interface TypeProblem {
  /** The file, relative to the workspace. */
  readonly file: string;
  /** The line, from 1. */
  readonly line: number;
  readonly message: string;
}

interface CheckTypesOptions {
  /** The Python environment that the actions run in. */
  readonly python: { readonly executable: string };
  /** Folders of further packages that they import, in this order. */
  readonly packages?: readonly string[];
  readonly signal?: AbortSignal;
}

/** The folders of a workspace with modules that saved actions import. */
const FOLDERS = ["gentools", "mcpparse", "mcptools"] as const;
const MAX_FILES = 20_000;
const MAX_FILE_BYTES = 4 * 2 ** 20;
/** The limit for a folder's files: sparse ones cost code nothing, but copies fill the disk. */
const MAX_BYTES = 128 * 2 ** 20;

/**
 * Checks the types of a workspace's saved actions, without running any of their code.
 *
 * The workspace may contain settings and interpreters that the checker would use, so it gets a copy
 * of only the Python files, and read-only access.
 */
export async function checkTypes(
  workspace: string,
  options: CheckTypesOptions,
): Promise<TypeProblem[]> {
  const { python, packages = [], signal } = options;
  await using folder = await PrivateFolder.create();
  const copy = folder.path;
  for (const part of FOLDERS) await copyPython(workspace, copy, part);
  await Deno.writeTextFile(join(copy, "ty.toml"), settings(packages));
  await using own = await PrivateFolder.create();
  const found = await runChecker({ workspace, folder: copy, own: own.path, python, signal });
  return found.filter(({ severity }) => severity === "major")
    .map(({ location, description }) => ({
      file: relative(copy, resolve(copy, location.path)),
      line: location.positions.begin.line,
      message: /^(?:[\w-]+: )?(.*)/.exec(description)?.[1] ?? "", // without the rule's name
    }));
}

/** Generated APIs are checked when they are generated; here they are only imported, like packages. */
function settings(packages: readonly string[]): string {
  return `
[src]
include = ["gentools", "mcpparse"]
[environment]
root = ${JSON.stringify([".", "mcptools", ...packages])}
`;
}

/** ty's JSON output, a GitLab Code Quality report. */
const reportSchema = z.array(z.object({
  description: z.string(),
  severity: z.string(),
  location: z.object({
    path: z.string(),
    positions: z.object({ begin: z.object({ line: z.number() }) }),
  }),
}));

async function runChecker(
  { workspace, folder, own, python: { executable }, signal }: CheckTypesOptions & {
    readonly workspace: string;
    readonly folder: string;
    readonly own: string;
  },
): Promise<z.infer<typeof reportSchema>> {
  if (!await isOwnProgram(executable, workspace)) {
    throw new EnvironmentNotReadyError(
      `Cannot check types with ${executable}: it is in a workspace, whose code can change it`,
      "Name a Python outside of it (--python PATH), or skip types with --no-types",
    );
  }
  const ty = await typeCheckerOf(executable);
  if (ty === undefined) {
    throw new EnvironmentNotReadyError(
      `Cannot check types: the type checker ty is not installed beside ${executable}`,
      "Run `ipybox setup`, or skip types with --no-types",
    );
  }
  const launcher = join(own, "checker.py");
  await Deno.writeTextFile(launcher, asset("launcher/checker.py"));
  const { code, stdout, stderr } = await runProgram(await programOf(executable), {
    args: [
      ...["-I", "-S", launcher, ty, "check", "--project", folder, "--python", executable],
      ...["--output-format", "gitlab", "--no-progress"],
    ],
    cwd: folder,
    clearEnv: true,
    signal,
  });
  // 0: no problems, 1: problems
  if (code <= 1 && stdout !== "") return reportSchema.parse(JSON.parse(stdout));
  throw new Error(`ty failed with exit code ${code}: ${stderr.slice(-2000)}`);
}

/** Copies a tree's plain Python files, without links, which may lead anywhere. */
async function copyPython(workspace: string, copy: string, top: string): Promise<void> {
  let [files, room] = [0, MAX_BYTES];
  const folders = [top];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const from = join(workspace, folder);
    if (!await isPlainFolder(from)) continue;
    await Deno.mkdir(join(copy, folder));
    for await (const { name, isDirectory, isFile } of Deno.readDir(from)) {
      if (isDirectory && name !== "__pycache__") folders.push(`${folder}/${name}`);
      if (!isFile || !/\.pyi?$/.test(name)) continue;
      if (++files > MAX_FILES) throw new Error(`${top} has more than ${MAX_FILES} files`);
      const parts = [...folder.split("/"), name];
      const bytes = await readInside(workspace, parts, MAX_FILE_BYTES);
      if (bytes === undefined) continue;
      room -= bytes.length;
      if (room < 0) throw new Error(`${top} has more than ${MAX_BYTES / 2 ** 20} MiB of Python`);
      await Deno.writeFile(join(copy, folder, name), bytes);
    }
  }
}
