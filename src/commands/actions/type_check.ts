import { join, relative } from "node:path";
import { z } from "zod";
import { EnvironmentNotReadyError } from "../../base/errors.ts";
import { PrivateFolder } from "../../files/private_folder.ts";
import { denoProgram, type ProgramPath } from "../../process/program.ts";
import { runProgram } from "../../process/run_program.ts";
import { isPlainFolder, readHostileBytes } from "../../files/safe.ts";

/** Where types do not fit. */
export interface TypeProblem {
  /** The file, relative to the workspace. */
  readonly file: string;
  /** The line, from 1. */
  readonly line: number;
  /** What is wrong. */
  readonly message: string;
}

/** Options of {@linkcode checkTypes}. */
export interface CheckTypesOptions {
  /** The Python whose packages the actions import. */
  readonly python: { readonly executable: string };
  /** Ends it. */
  readonly signal?: AbortSignal;
}

/** A static checker that npm has and that brings what it needs along. */
const PYRIGHT = "npm:pyright@1.1.414/pyright";
/** What saved actions import of a workspace. */
const FOLDERS = ["gentools", "mcpparse", "mcptools"] as const;
const MAX_FILES = 20_000;
const MAX_FILE_BYTES = 4 * 2 ** 20;
/** Of one folder's files together: what costs code nothing, as holes do, would fill the disk here. */
const MAX_BYTES = 128 * 2 ** 20;

/**
 * Checks the types of a workspace's saved actions, without running anything of them.
 *
 * The workspace may hold settings and interpreters that the checker would obey, so it sees a copy of
 * the Python files only, and may only read.
 */
export async function checkTypes(
  workspace: string,
  options: CheckTypesOptions,
): Promise<TypeProblem[]> {
  const { python, signal } = options;
  await using folder = await PrivateFolder.create();
  const copy = folder.path;
  for (const part of FOLDERS) await copyPython(workspace, copy, part);
  await Deno.writeTextFile(join(copy, "pyrightconfig.json"), JSON.stringify(CONFIG));
  const report = await runPyright(copy, python, signal);
  return report.generalDiagnostics.filter(({ severity }) => severity === "error")
    .map(({ file, message, range }) => ({
      file: relative(copy, file),
      line: range.start.line + 1,
      message: message.split("\n")[0] ?? "",
    }));
}

/** Generated APIs are checked where they are generated; here they are only imported. */
const CONFIG = {
  include: ["gentools", "mcpparse"],
  extraPaths: [".", "mcptools"],
  typeCheckingMode: "standard",
};

const reportSchema = z.object({
  generalDiagnostics: z.array(z.object({
    file: z.string(),
    severity: z.string(),
    message: z.string(),
    range: z.object({ start: z.object({ line: z.number() }) }),
  })),
});

async function runPyright(
  folder: string,
  python: CheckTypesOptions["python"],
  signal: AbortSignal | undefined,
): Promise<z.infer<typeof reportSchema>> {
  const deno = await typeCheckDeno();
  await fetchPyright(deno, signal);
  const { code, stdout, stderr } = await runProgram(deno, {
    args: [
      "run",
      "--quiet",
      "--no-prompt",
      "--no-config",
      "--no-lock",
      "--cached-only",
      "--allow-read", // its own files, and those of whatever the actions import
      `--allow-run=${python.executable}`,
      "--allow-env",
      "--allow-sys",
      PYRIGHT,
      ...["--project", folder, "--pythonpath", python.executable, "--outputjson"],
    ],
    cwd: folder,
    signal,
  });
  // 0: nothing found, 1: something found
  if (code <= 1) return reportSchema.parse(JSON.parse(stdout));
  throw new Error(`pyright failed with exit code ${code}: ${stderr.slice(-2000)}`);
}

async function typeCheckDeno(): Promise<ProgramPath> {
  try {
    return await denoProgram();
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    const message = `Cannot check types: the type checker needs Deno, and ${cause.message}`;
    const fix = "Install Deno, or skip types with --no-types";
    throw new EnvironmentNotReadyError(message, fix, { cause });
  }
}

async function fetchPyright(deno: ProgramPath, signal: AbortSignal | undefined): Promise<void> {
  const { success } = await runProgram(deno, {
    args: ["cache", "--quiet", "--no-config", "--no-lock", PYRIGHT],
    signal,
  });
  if (success) return;
  throw new EnvironmentNotReadyError(
    "Cannot check types: the type checker pyright is not installed and cannot be downloaded",
    "Connect to the network once, or skip types with --no-types",
  );
}

/** Copies a tree's plain Python files. Links are left out, as they may lead anywhere. */
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
      const bytes = await readHostileBytes(join(from, name), MAX_FILE_BYTES);
      if (bytes === undefined) continue;
      room -= bytes.length;
      if (room < 0) throw new Error(`${top} has more than ${MAX_BYTES / 2 ** 20} MiB of Python`);
      await Deno.writeFile(join(copy, folder, name), bytes);
    }
  }
}
