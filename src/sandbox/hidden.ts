/**
 * The paths of a working folder that executed code does not see: ipybox's own state, secrets by their
 * names, and sockets, on which a program of the host may listen.
 *
 * @module
 */
import { z } from "zod";
import { asset } from "../assets/mod.ts";
import type { ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { STATE_FOLDER } from "../process/trusted_path.ts";

/** How many paths can be hidden: each is a mount, and mounts make every start slower. */
const MAX_HIDDEN = 500;

const SECRET_FILES: ReadonlySet<string> = new Set([
  ".boto",
  ".envrc",
  ".git-credentials",
  ".my.cnf",
  ".netrc",
  ".npmrc",
  ".pgpass",
  ".pypirc",
  ".s3cfg",
  ".vault-token",
  "credentials.toml",
  ...["dsa", "ecdsa", "ed25519", "rsa"].flatMap((kind) => [`id_${kind}`, `id_${kind}_sk`]),
]);
/** With the copies that people and editors make, such as `.env-old`, `.env~` and `..env.swp`. */
const DOTENV = /^\.{1,2}(?:env|dev\.vars)(?:\W|_|$)/;
const EXAMPLE = /[._-](example|sample|template)$/;

/** The paths to hide, and a warning if there are too many. */
interface Hidden {
  /** The paths to hide, of which at most {@linkcode MAX_HIDDEN} are given. */
  readonly paths: readonly string[];
  /** Paths of the repository outside of it that git needs, if it is a worktree or a submodule. */
  readonly repository: readonly string[];
  /** Why code may see more than it should, in a sentence for the user. */
  readonly warning?: string;
}

const answerSchema = z.object({
  paths: z.array(z.string().startsWith("/")),
  found: z.number(),
  repository: z.array(z.string().startsWith("/")),
});

/** Finds the paths in a folder that code must not see. The folder's path has no links. */
export async function findHidden(
  folder: string,
  { python, signal }: { readonly python: ProgramPath; readonly signal?: AbortSignal },
): Promise<Hidden> {
  const order = {
    folder,
    names: [...SECRET_FILES],
    pattern: DOTENV.source,
    example: EXAMPLE.source,
    state: STATE_FOLDER,
    most: MAX_HIDDEN,
  };
  const args = ["-I", "-S", "-c", asset("sandbox/hidden.py"), JSON.stringify(order)];
  const { success, stdout, stderr } = await runProgram(python, { args, signal });
  if (!success) throw new Error(`Cannot search ${folder} for secrets: ${stderr.trim()}`);
  const { paths, found, repository } = answerSchema.parse(JSON.parse(stdout));
  const left = found - paths.length;
  if (left === 0) return { paths, repository };
  const warning = `Code can read ${left} files with names of secrets in ${folder}: at most ` +
    `${MAX_HIDDEN} can be hidden`;
  return { paths, repository, warning };
}

/** Whether files and folders of this name are hidden from executed code. */
export function isHiddenName(name: string): boolean {
  const isSecret = SECRET_FILES.has(name) || (DOTENV.test(name) && !EXAMPLE.test(name));
  return isSecret || name === STATE_FOLDER;
}
