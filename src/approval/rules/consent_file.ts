import { join } from "node:path";
import { z } from "zod";
import type { Consent, ConsentStore } from "../consents.ts";
import type { Pattern } from "../pattern.ts";
import { ConfigError } from "../../base/errors.ts";
import { parseFile } from "../../json/document.ts";
import { problemLines } from "../../json/problems.ts";
import { type Logger, silentLogger } from "../../base/log.ts";
import { OwnEntries } from "../../files/own_entries.ts";
import {
  isPlainFolder,
  lockPlainFolder,
  readHostileFile,
  replaceHostileFile,
} from "../../files/safe.ts";

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

/** The largest file to write: one that can be read again. */
const MAX_BYTES = 3 * 2 ** 20;

/**
 * The decisions for always, in a workspace's `.ipybox/consents.json`.
 *
 * The file may have come with a repository, so a permission counts only if it was given on this
 * machine. Only entries that existed when the file was opened, or that were added through this
 * object, count, and only while they are in the file: entries that code adds allow nothing, and
 * entries that a person removes lose their effect immediately.
 */
export class ConsentFile implements ConsentStore {
  readonly #folder: string;
  readonly #path: string;
  readonly #log: Logger;
  readonly #own: OwnEntries;
  #known = new Set<string>();
  // Each call looks these up, and the file can have thousands.
  #lastRead: { readonly text: string; readonly all: readonly Consent[] } | undefined;
  #lastListed:
    | { readonly all: readonly Consent[]; readonly counting: readonly Consent[] }
    | undefined;

  private constructor(workspace: string, own: OwnEntries, log: Logger) {
    this.#own = own;
    this.#folder = join(workspace, ".ipybox");
    this.#path = join(this.#folder, "consents.json");
    this.#log = log;
  }

  /** Opens the file of a workspace. An invalid file is logged and ignored. */
  static async open(workspace: string, log: Logger = silentLogger): Promise<ConsentFile> {
    const file = new ConsentFile(workspace, await OwnEntries.open(workspace, "consents"), log);
    await file.reload();
    return file;
  }

  /** Reads the current content of the file. */
  async reload(): Promise<void> {
    await this.#own.reload();
    const counting = (await this.#readable()).filter((consent) => this.isOwn(consent));
    this.#known = new Set(counting.map((consent) => JSON.stringify(consent)));
    this.#lastListed = undefined;
  }

  /** Whether a consent counts on this machine: refusals do, wherever they were decided. */
  isOwn(consent: Consent): boolean {
    return consent.decision === "deny" || this.#own.has(consent.id, consent);
  }

  /** Lists the consents that count. */
  async list(): Promise<readonly Consent[]> {
    if (this.#known.size === 0) return [];
    const all = await this.#readable();
    if (this.#lastListed?.all !== all) {
      const counting = all.filter((consent) => this.#known.has(JSON.stringify(consent)));
      this.#lastListed = { all, counting };
    }
    return this.#lastListed.counting;
  }

  /** Adds a consent. Once this resolves, it is written completely. */
  async add(consent: Consent, replaced: (earlier: Consent) => boolean): Promise<void> {
    const parsed = consentSchema.parse(JSON.parse(JSON.stringify(consent)));
    const gone: Consent[] = [];
    await this.#edit((all) => {
      gone.push(...all.filter(replaced));
      return [...all.filter((earlier) => !gone.includes(earlier)), parsed];
    });
    for (const { id } of gone) await this.#own.set(id, undefined);
    await this.#own.set(parsed.id, parsed);
    this.#known.add(JSON.stringify(parsed));
    this.#lastListed = undefined;
  }

  /** Removes consents and returns them. */
  async forget(isForgotten: (consent: Consent) => boolean): Promise<Consent[]> {
    const forgotten: Consent[] = [];
    if (!await isPlainFolder(this.#folder)) return forgotten;
    await this.#edit((all) => {
      forgotten.push(...all.filter(isForgotten));
      return all.filter((consent) => !isForgotten(consent));
    });
    for (const { id } of forgotten) await this.#own.set(id, undefined);
    return forgotten;
  }

  /** Reads all consents in the file. */
  async read(): Promise<Consent[]> {
    return [...await this.#read()];
  }

  async #read(): Promise<readonly Consent[]> {
    const text = await isPlainFolder(this.#folder) ? await readHostileFile(this.#path) : undefined;
    if (text === undefined) return [];
    if (this.#lastRead?.text !== text) {
      this.#lastRead = { text, all: parseConsents(this.#path, text) };
    }
    return this.#lastRead.all;
  }

  async #edit(change: (all: Consent[]) => Consent[]): Promise<void> {
    using _lock = await lockPlainFolder(this.#folder, "consents.lock");
    const consents = change(await this.read());
    const text = JSON.stringify({ version: 1, consents }, null, 2) + "\n";
    if (new TextEncoder().encode(text).length > MAX_BYTES) {
      throw new ConfigError(
        `Too many decisions in ${this.#path}: remove some with \`ipybox policy forget\``,
      );
    }
    await replaceHostileFile(this.#path, text);
  }

  async #readable(): Promise<readonly Consent[]> {
    try {
      return await this.#read();
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      this.#log.error(
        `${error.message}\nIgnoring the saved decisions in this file; calls will need approval`,
      );
      return [];
    }
  }
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
