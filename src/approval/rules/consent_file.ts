import { lstatSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Consent, ConsentStore } from "../consents.ts";
import type { Pattern } from "../pattern.ts";
import { ConfigError } from "../../base/errors.ts";
import { parseFile } from "../../json/document.ts";
import { problemLines } from "../../json/problems.ts";
import { type Logger, silentLogger } from "../../base/log.ts";
import { lockUserFolder, readHostileFile, replaceHostileFile } from "../../files/safe.ts";
import { UNWRITABLE } from "../../files/user_folders.ts";
import { makeWorkspaceState, workspaceState } from "../../files/workspace_state.ts";

const text = z.string();
const hash = z.string().regex(/^[0-9a-f]{64}$/);

/** The tests of rules that are proposed for calls. */
const pattern: z.ZodType<Pattern> = z.strictObject({
  arguments: z.record(
    text.regex(/^\/\w+$/),
    z.union([z.strictObject({ path: text.min(1) }), z.strictObject({ prefix: text.min(1) })]),
  ).optional(),
  command: text.min(1).optional(),
}).refine((given) => Object.keys(given).length === 1, { message: "Specify one of them" });

const consentSchema: z.ZodType<Consent> = z.strictObject({
  id: text.min(1),
  decision: z.enum(["allow", "deny"]),
  kind: z.enum(["tool", "shell", "shell_magic", "resource"]),
  server: text,
  tool: text,
  call: text.optional(),
  arguments: hash.optional(),
  where: pattern.optional(),
  reason: text.optional(),
  since: text,
  salt: text.min(1),
  bound: z.record(
    text,
    z.strictObject({ about: z.enum(["server", "tool"]), hash, shown: text.optional() }),
  ),
});

const fileSchema = z.strictObject({ version: z.literal(1), consents: z.array(consentSchema) });

/** The largest file to write: it must be readable again. */
const MAX_BYTES = 3 * 2 ** 20;

/** The decisions that always count, in the user's state folder for the workspace. */
export class ConsentFile implements ConsentStore {
  readonly #workspace: string;
  readonly #log: Logger;
  #folder: string | undefined;
  // Each call looks these up, and the file can have thousands.
  #lastRead: { readonly version: string; readonly all: readonly Consent[] } | undefined;

  private constructor(workspace: string, log: Logger) {
    this.#workspace = workspace;
    this.#log = log;
  }

  /** Opens the file of a workspace. An invalid file is logged and ignored. */
  static async open(workspace: string, log: Logger = silentLogger): Promise<ConsentFile> {
    const file = new ConsentFile(workspace, log);
    await file.list();
    return file;
  }

  /** Lists the consents that count. */
  async list(): Promise<readonly Consent[]> {
    try {
      return await this.read();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      this.#log.error(
        `${error.message}\nIgnoring the saved decisions in this file; calls will need approval`,
      );
      return [];
    }
  }

  /** Adds a consent. Once this resolves, it is written completely. */
  async add(consent: Consent, replaced: (earlier: Consent) => boolean): Promise<void> {
    const parsed = consentSchema.parse(JSON.parse(JSON.stringify(consent)));
    const folder = this.#folder ??= await makeWorkspaceState(this.#workspace);
    if (folder === undefined) throw new ConfigError(`Cannot keep decisions: ${UNWRITABLE}`);
    await this.#edit(folder, (all) => [...all.filter((earlier) => !replaced(earlier)), parsed]);
  }

  /** Removes consents and returns them. */
  async forget(isForgotten: (consent: Consent) => boolean): Promise<Consent[]> {
    const forgotten: Consent[] = [];
    const folder = await this.#find();
    if (folder === undefined) return forgotten;
    await this.#edit(folder, (all) => {
      forgotten.push(...all.filter(isForgotten));
      return all.filter((consent) => !isForgotten(consent));
    });
    return forgotten;
  }

  /** Reads all consents in the file. */
  async read(): Promise<readonly Consent[]> {
    const folder = await this.#find();
    if (folder === undefined) return [];
    const path = pathIn(folder);
    const version = versionOf(path); // read first: a change in between counts as another one
    if (this.#lastRead?.version !== version) {
      const text = await readHostileFile(path);
      this.#lastRead = { version, all: text === undefined ? [] : parseConsents(path, text) };
    }
    return this.#lastRead.all;
  }

  async #find(): Promise<string | undefined> {
    return this.#folder ??= await workspaceState(this.#workspace);
  }

  async #edit(folder: string, change: (all: readonly Consent[]) => Consent[]): Promise<void> {
    using _lock = await lockUserFolder(folder);
    const consents = change(await this.read());
    const text = JSON.stringify({ version: 1, consents }, null, 2) + "\n";
    const path = pathIn(folder);
    if (new TextEncoder().encode(text).length > MAX_BYTES) {
      throw new ConfigError(
        `Too many decisions in ${path}: remove some with \`ipybox policy forget\``,
      );
    }
    await replaceHostileFile(path, text);
  }
}

function pathIn(folder: string): string {
  return join(folder, "consents.json");
}

/** What differs once a file is written or replaced. Not awaited, as each call waits for it. */
function versionOf(path: string): string {
  const status = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  return status === undefined ? "" : `${status.ino} ${status.size} ${status.ctimeNs}`;
}

function parseConsents(path: string, text: string): Consent[] {
  const parsed = fileSchema.safeParse(parseFile(path, text).value);
  if (parsed.success) return parsed.data.consents;
  const problem = problemLines(parsed.error);
  throw new ConfigError(
    `Invalid decisions in ${path}: fix or remove the file\n${problem}`,
    { cause: parsed.error },
  );
}
