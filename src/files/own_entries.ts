import { join, resolve } from "node:path";
import { z } from "zod";
import { mayUse } from "../base/permission.ts";
import { canonicalJson, sha256 } from "../json/digest.ts";
import { toExact } from "../json/exact.ts";
import { ifPresent, lockUserFolder, readHostileFile, replaceHostileFile } from "./safe.ts";
import { isUnwritable, stateFolder } from "./user_folders.ts";

const digests = z.record(z.string(), z.string());

/** What of a workspace a person can have decided on. */
type OwnKind = "registrations" | "policies" | "consents";

/**
 * Which entries of a workspace's files the person has made or accepted on this machine, such as
 * registered servers, by digests of what they say. It is kept in the user's state folder, which no code
 * reaches: what came with a repository, or what code wrote, is not in there.
 *
 * Where that folder may not or cannot be used, it counts for this process only.
 */
export class OwnEntries {
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

  /** Reads those of a workspace. */
  static async open(
    workspace: string,
    kind: OwnKind,
    state: string | undefined = stateFolder(),
  ): Promise<OwnEntries> {
    const folder = state === undefined ? undefined : join(state, kind);
    const real = await ifPresent(Deno.realPath(workspace)) ?? resolve(workspace);
    const own = new OwnEntries(real, folder !== undefined && mayUse(folder) ? folder : undefined);
    await own.reload();
    return own;
  }

  /** Reads what other processes have written since. */
  async reload(): Promise<void> {
    if (this.#place !== undefined) this.#digests = await readDigests(this.#place.path);
  }

  /** Whether an entry is as the person made or accepted it. */
  has(name: string, value: unknown): boolean {
    return Object.hasOwn(this.#digests, name) &&
      this.#digests[name] === this.#digest(name, value);
  }

  /** Remembers that an entry is the person's own, or forgets it. */
  async set(name: string, value: unknown): Promise<void> {
    this.#digests = this.#changed(this.#digests, name, value);
    if (this.#place === undefined) return;
    const { folder, path } = this.#place;
    try {
      using _lock = await lockUserFolder(folder);
      this.#digests = this.#changed(await readDigests(path), name, value);
      await replaceHostileFile(path, JSON.stringify(this.#digests, null, 2) + "\n");
    } catch (error) {
      if (!isUnwritable(error)) throw error; // else the next process asks
    }
  }

  #changed(
    all: Readonly<Record<string, string>>,
    name: string,
    value: unknown,
  ): Readonly<Record<string, string>> {
    const others = Object.entries(all).filter(([other]) => other !== name);
    const own = value === undefined ? [] : [[name, this.#digest(name, value)] as const];
    return Object.fromEntries([...others, ...own]);
  }

  #digest(name: string, value: unknown): string {
    return sha256(canonicalJson(toExact([this.#workspace, name, value])));
  }
}

/** What is damaged or closed makes no entry the person's own: they are asked again. */
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
