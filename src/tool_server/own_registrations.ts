import { join } from "node:path";
import { z } from "zod";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { toExact } from "../json/exact.ts";
import { lockPlainFolder, readHostileFile, replaceHostileFile } from "../mcp/hostile_files.ts";
import type { ServerParams } from "../mcp/server_params.ts";
import { stateFolder } from "../process/user_folders.ts";

const digests = z.record(z.string(), z.string());

/**
 * Which of a workspace's registered servers the person has registered or accepted, by digests of how
 * they are started. It is kept in the user's state folder, which no code reaches: a registry that came
 * with a repository, or that code wrote, is not in there.
 *
 * Where that folder may not or cannot be used, it counts for this process only.
 */
export class OwnRegistrations {
  readonly #workspace: string;
  /** The file's folder and path, where they may be used. */
  readonly #place: { readonly folder: string; readonly path: string } | undefined;
  #digests: Readonly<Record<string, string>> = {};

  private constructor(workspace: string, folder: string | undefined) {
    this.#workspace = workspace;
    this.#place = folder === undefined
      ? undefined
      : { folder, path: join(folder, `${sha256(workspace).slice(0, 32)}.json`) };
  }

  /**
   * Reads those of a workspace.
   *
   * @param workspace The workspace, without symbolic links in its path.
   * @param state The user's state folder, if there is one.
   * @returns The registrations.
   * @throws {ConfigError} The file in the user's folder is no plain file.
   */
  static async open(
    workspace: string,
    state: string | undefined = stateFolder(),
  ): Promise<OwnRegistrations> {
    const folder = state === undefined ? undefined : join(state, "registrations");
    const own = new OwnRegistrations(workspace, await mayUse(folder) ? folder : undefined);
    await own.reload();
    return own;
  }

  /** Takes what other processes wrote meanwhile. */
  async reload(): Promise<void> {
    if (this.#place !== undefined) this.#digests = await readDigests(this.#place.path);
  }

  /**
   * Whether a server is registered as the person registered it.
   *
   * @param name The server's name.
   * @param params How it is started or reached.
   * @returns Whether it is.
   */
  has(name: string, params: ServerParams): boolean {
    return Object.hasOwn(this.#digests, name) &&
      this.#digests[name] === this.#digest(name, params);
  }

  /**
   * Remembers that a registration is the person's own, or forgets it.
   *
   * @param name The server's name.
   * @param params How it is started or reached; `undefined` for a server that was removed.
   */
  async set(name: string, params: ServerParams | undefined): Promise<void> {
    this.#digests = this.#changed(this.#digests, name, params);
    if (this.#place === undefined) return;
    const { folder, path } = this.#place;
    try {
      await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
      using _lock = await lockPlainFolder(folder, "lock");
      this.#digests = this.#changed(await readDigests(path), name, params);
      await replaceHostileFile(path, JSON.stringify(this.#digests, null, 2) + "\n");
    } catch (error) {
      if (!isUnwritable(error)) throw error; // else the next process asks
    }
  }

  #changed(
    all: Readonly<Record<string, string>>,
    name: string,
    params: ServerParams | undefined,
  ): Readonly<Record<string, string>> {
    const others = Object.entries(all).filter(([other]) => other !== name);
    const own = params === undefined ? [] : [[name, this.#digest(name, params)] as const];
    return Object.fromEntries([...others, ...own]);
  }

  #digest(name: string, params: ServerParams): string {
    return sha256(canonicalJson(toExact([this.#workspace, name, params])));
  }
}

/** What is damaged or closed says of no server that it is the person's own: they are asked again. */
async function readDigests(path: string): Promise<Readonly<Record<string, string>>> {
  try {
    const text = await readHostileFile(path);
    if (text === undefined) return {};
    return digests.safeParse(JSON.parse(text)).data ?? {};
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof Deno.errors.PermissionDenied) return {};
    throw error;
  }
}

/** Whether the user's folder is one that cannot be written to, as in some containers. */
function isUnwritable(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    (error instanceof Error && "code" in error && error.code === "EROFS");
}

async function mayUse(folder: string | undefined): Promise<boolean> {
  if (folder === undefined) return false;
  for (const name of ["read", "write"] as const) {
    if ((await Deno.permissions.query({ name, path: folder })).state !== "granted") return false;
  }
  return true;
}
