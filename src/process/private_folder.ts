import { join } from "node:path";
import { type Logger, silentLogger } from "../log.ts";
import { HeldFolder } from "./held_folder.ts";
import { isGranted } from "./permission.ts";
import { PathTrust } from "./trusted_path.ts";
import { cacheFolder } from "./user_folders.ts";

/**
 * An empty folder in which a program of somebody else is started. Disposing removes it.
 *
 * It must not be the workspace, where the code in the sandbox writes, nor below a folder where other
 * users do: programs look for packages, modules and settings in their working directory and in the
 * folders above it, and run or obey what they find. So it is in the user's cache. Where there is none,
 * it is in the folder for temporary files, and what stops the known programs lies above it.
 */
export class PrivateFolder implements AsyncDisposable {
  /** The folder, without symbolic links in its path. */
  readonly path: string;
  readonly #held: HeldFolder;

  private constructor(held: HeldFolder) {
    this.#held = held;
    this.path = `${held.path}/empty`;
  }

  /** Makes a folder. */
  static async create(
    untrusted: readonly string[] = [],
    log: Logger = silentLogger,
  ): Promise<PrivateFolder> {
    await using parts = new AsyncDisposableStack();
    const held = parts.use(await HeldFolder.create({ parent: await usersOwn(untrusted), log }));
    const folder = new PrivateFolder(held);
    for (const path of [folder.path, `${held.path}/node_modules`]) await Deno.mkdir(path);
    for (const [name, text] of BARRIER) await Deno.writeTextFile(`${held.path}/${name}`, text);
    parts.move();
    return folder;
  }

  /** Removes the folder and what is in it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#held[Symbol.asyncDispose]();
  }
}

/**
 * What makes Deno and uv look no further above: the root of a workspace. npm stops at `node_modules`;
 * a `package.json` beside it would let a folder above claim this one for its own workspace.
 */
const BARRIER: readonly (readonly [name: string, text: string])[] = [
  ["deno.json", '{ "workspace": [] }\n'],
  ["pyproject.toml", "[tool.uv.workspace]\n"],
];

/** The folder in the user's cache, where it can be had and only this user can write to it. */
async function usersOwn(untrusted: readonly string[]): Promise<string | undefined> {
  const cache = cacheFolder();
  if (cache === undefined) return undefined;
  const path = join(cache, "run");
  const wanted: readonly Deno.PermissionDescriptor[] = [
    { name: "read", path },
    { name: "write", path },
    { name: "sys", kind: "uid" },
  ];
  if (!wanted.every(isGranted)) return undefined;
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
    const { isDirectory, uid, mode } = await Deno.lstat(path);
    if (!isDirectory || uid !== Deno.uid()) return undefined;
    if (((mode ?? 0) & 0o077) !== 0) await Deno.chmod(path, 0o700);
  } catch {
    return undefined; // a home that is missing, full or read-only
  }
  return await (await PathTrust.create(untrusted)).whyShared(path) === undefined ? path : undefined;
}
