import { join, resolve } from "node:path";
import { z } from "zod";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { toExact } from "../json/exact.ts";
import { ifPresent, lockUserFolder, readHostileFile, replaceHostileFile } from "./safe.ts";
import { isUnwritable, usableState } from "./user_folders.ts";

const digests = z.record(z.string(), z.string());

/** The parts of a workspace that a person can decide on. */
type OwnKind = "registrations" | "policies" | "consents";

/**
 * The entries of a workspace's files that the user made or accepted on this machine, such as
 * registered servers, recorded as digests of their content. The record is in the user's state
 * folder, which code cannot reach, so it contains nothing that came with a repository or was
 * written by code.
 *
 * If that folder cannot be used, the record exists only in this process.
 */
export class OwnEntries {
  readonly #workspace: string;
  /** The record's folder and path, if they can be used. */
  readonly #place: { readonly folder: string; readonly path: string } | undefined;
  #digests: Readonly<Record<string, string>> = {};

  private constructor(workspace: string, folder: string | undefined) {
    this.#workspace = workspace;
    this.#place = folder === undefined
      ? undefined
      : { folder, path: join(folder, `${sha256(workspace).slice(0, 32)}.json`) };
  }

  /** Reads the record of a workspace. */
  static async open(
    workspace: string,
    kind: OwnKind,
    state?: string,
  ): Promise<OwnEntries> {
    const real = await ifPresent(Deno.realPath(workspace)) ?? resolve(workspace);
    const own = new OwnEntries(real, usableState(kind, state));
    await own.reload();
    return own;
  }

  /** Reads what other processes have written since. */
  async reload(): Promise<void> {
    if (this.#place !== undefined) this.#digests = await readDigests(this.#place.path);
  }

  /** Whether an entry is unchanged since the user made or accepted it. */
  has(name: string, value: unknown): boolean {
    return Object.hasOwn(this.#digests, name) &&
      this.#digests[name] === this.#digest(name, value);
  }

  /** What is recorded of an entry, to {@linkcode restore}. */
  digestOf(name: string): string | undefined {
    return Object.hasOwn(this.#digests, name) ? this.#digests[name] : undefined;
  }

  /** Records again what was recorded. */
  async restore(name: string, digest: string | undefined): Promise<void> {
    await this.#record(name, digest);
  }

  /** Records that an entry is the user's own; `undefined` removes it. Whether other processes see that. */
  async set(name: string, value: unknown): Promise<boolean> {
    return await this.#record(name, value === undefined ? undefined : this.#digest(name, value));
  }

  async #record(name: string, digest: string | undefined): Promise<boolean> {
    this.#digests = changed(this.#digests, name, digest);
    if (this.#place === undefined) return false;
    const { folder, path } = this.#place;
    try {
      using _lock = await lockUserFolder(folder);
      this.#digests = changed(await readDigests(path), name, digest);
      await replaceHostileFile(path, JSON.stringify(this.#digests, null, 2) + "\n");
      return true;
    } catch (error) {
      if (!isUnwritable(error)) throw error;
      return false; // the next process asks again
    }
  }

  #digest(name: string, value: unknown): string {
    return sha256(canonicalJson(toExact([this.#workspace, name, value])));
  }
}

function changed(
  all: Readonly<Record<string, string>>,
  name: string,
  digest: string | undefined,
): Readonly<Record<string, string>> {
  const others = Object.entries(all).filter(([other]) => other !== name);
  return Object.fromEntries([...others, ...digest === undefined ? [] : [[name, digest] as const]]);
}

/** Reads digests. A damaged file has none: the user is asked again. */
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
