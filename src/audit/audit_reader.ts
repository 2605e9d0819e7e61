import { basename } from "node:path";
import { ConfigError } from "../errors.ts";
import { sha256 } from "../json/digest.ts";
import { readHostileBytes } from "../mcp/hostile_files.ts";
import { AuditFolder } from "./audit_folder.ts";
import { GENESIS, readChainLine } from "./chain.ts";

/** What {@linkcode verifyAuditLog} found. */
export interface AuditVerdict {
  /** Whether every line is as it was written, and none is missing between the first and the last. */
  readonly ok: boolean;
  /** How many lines are good, up to the first bad one. */
  readonly entries: number;
  /** The number of the first line: above 1 once older files were removed. */
  readonly first?: number | undefined;
  /** How many torn lines were sealed off. */
  readonly sealed: number;
  /** The first bad line. */
  readonly bad?: {
    /** The file's name. */
    readonly file: string;
    /** The line in it, from 1. */
    readonly line: number;
    /** What is wrong. */
    readonly problem: string;
  } | undefined;
}

/** Files are rotated long before this. */
const MAX_BYTES = 2 ** 30;

/**
 * Checks the audit log of a workspace.
 *
 * It finds lines that were changed, added, moved or taken out. It cannot find that lines at the end
 * were cut off, nor that the whole log was written anew.
 *
 * @param workspace The workspace.
 * @returns What was found.
 * @throws {ConfigError} A file of the log is no plain file.
 */
export async function verifyAuditLog(workspace: string): Promise<AuditVerdict> {
  const folder = new AuditFolder(workspace);
  using _lock = await folder.lock();
  let [entries, sealed, seq, hash] = [0, 0, 0, GENESIS];
  let first: number | undefined;
  for await (const [path, lines, whole] of filesOf(folder)) {
    const bad = (index: number, problem: string): AuditVerdict => {
      return {
        ok: false,
        entries,
        first,
        sealed,
        bad: { file: basename(path), line: index + 1, problem },
      };
    };
    for (let index = 0; index < lines.length; index++) {
      const text = lines[index] ?? "";
      const line = readChainLine(text);
      if (line === undefined) {
        if (index === lines.length - 1 && !whole) {
          return bad(index, "It is torn: the next entry will seal it off");
        }
        if (!sealsOff(lines[index + 1], text, hash)) return bad(index, "It is no line of the log");
        sealed++;
        continue;
      }
      if (index === lines.length - 1 && !whole) return bad(index, "Its end is missing");
      if (!line.intact) return bad(index, "It was changed: its hash is another");
      const start = first === undefined && (line.seq > 1 || line.prev === GENESIS);
      if (!start && line.prev !== hash) return bad(index, "It does not follow the line before it");
      if (!start && line.seq !== seq + 1) return bad(index, "Its number does not follow");
      first ??= line.seq;
      entries++;
      ({ seq, hash } = line);
    }
  }
  return { ok: true, entries, first, sealed };
}

/**
 * Reads the audit log of a workspace. Lines that are damaged are left out: {@linkcode verifyAuditLog}
 * tells of them.
 *
 * @param workspace The workspace.
 * @param after Only lines with higher numbers.
 * @returns The fields of each line, the oldest first.
 */
export async function* readAuditLog(
  workspace: string,
  after = 0,
): AsyncGenerator<Readonly<Record<string, unknown>>, void, undefined> {
  for await (const [, lines, whole] of filesOf(new AuditFolder(workspace))) {
    for (const text of whole ? lines : lines.slice(0, -1)) {
      const line = readChainLine(text);
      if (line !== undefined && line.seq > after) yield line.fields;
    }
  }
}

/** The lines of each file, and whether the last one has its end. */
async function* filesOf(folder: AuditFolder): AsyncGenerator<[string, string[], boolean]> {
  const paths = (await folder.rotated()).map(([, path]) => path);
  for (const path of [...paths, folder.current]) {
    const bytes = await readHostileBytes(path, MAX_BYTES);
    if (bytes === undefined) {
      if (await Deno.lstat(path).then(() => true, () => false)) {
        throw new ConfigError(`Cannot read ${path}: it is not a plain file`);
      }
      continue;
    }
    if (bytes.length === 0) continue;
    const text = new TextDecoder().decode(bytes);
    const whole = text.endsWith("\n");
    yield [path, (whole ? text.slice(0, -1) : text).split("\n"), whole];
  }
}

/** Whether a line seals off the torn one before it. */
function sealsOff(line: string | undefined, torn: string, hash: string): boolean {
  const seal = readChainLine(line ?? "");
  const { sealed } = seal?.fields ?? {};
  return seal !== undefined && seal.intact && seal.prev === hash && typeof sealed === "object" &&
    sealed !== null && "sha256" in sealed && sealed.sha256 === sha256(torn);
}
