import { dirname, join } from "node:path";
import { isPlainFolder, lstatIfPresent } from "../mcp/hostile_files.ts";
import { whileUnused } from "../mcp_server/http/session_folders.ts";
import { forEachAbandoned, removeHeld } from "../process/held_folder.ts";
import { removeFromWorkspace } from "../process/remove_tree.ts";
import { cacheFolder } from "../process/user_folders.ts";
import { PackageFolder } from "../python/packages.ts";
import { formatBytes } from "../kernel/text.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine, table } from "./command.ts";
import { printable } from "./printable.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";

/** `ipybox clean`: removes what is left over. */
export const clean: Command = {
  name: "clean",
  summary: "Remove what ended processes, old sessions and gone workspaces left",
  usage: "[OPTIONS]",
  options: {
    "dry-run": { help: "Say what would be removed, and remove nothing" },
    days: {
      value: "N",
      help: "Remove sessions in which no file changed for so many days (default: 30)",
    },
    workspace: WORKSPACE,
  },
  notes: [
    "It removes temporary folders of processes that were killed, folders of the",
    "workspace's sessions of `ipybox mcp --http` that are old, and packages that were",
    "installed for workspaces that are gone. While such a server runs, the sessions",
    "of its workspace are left alone.",
    "",
    "Example:",
    "",
    "  ipybox clean --dry-run",
  ].join("\n"),
  run,
};

/** A folder that nobody needs any more. */
interface Leftover {
  readonly path: string;
  readonly what: string;
  readonly bytes: number;
}

const DAY_MS = 86_400_000;

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(clean, args);
  const workspace = await workspaceOf(parsed);
  const days = parsed.positiveNumber("days") ?? 30;
  const found: Leftover[] = [];
  let failed = false;
  const take = async (leftover: Omit<Leftover, "bytes">, remove: () => Promise<void>) => {
    const { bytes } = await usageOf(leftover.path);
    try {
      if (!parsed.has("dry-run")) await remove();
      found.push({ ...leftover, bytes });
    } catch (error) {
      failed = true; // and the others are removed all the same
      io.err(printable(`Cannot remove all of ${leftover.path}: ${error}`));
    }
  };
  for (const place of await temporaryFolders()) {
    await forEachAbandoned(place, async (path) => {
      await take({ path, what: "temporary files of an ended process" }, () => removeHeld(path));
    });
  }
  const unused = await whileUnused(workspace, async (sessions) => {
    for (const path of await oldSessions(sessions, Date.now() - days * DAY_MS)) {
      await take({ path, what: "a session's folder" }, () => removeFromWorkspace(path, workspace));
    }
  });
  if (!unused) io.err("Sessions are left alone: `ipybox mcp --http` runs in this workspace");
  for (const { path, workspace: gone } of await PackageFolder.abandoned()) {
    const what = `packages of ${gone}, which is gone`;
    await take({ path, what }, () => PackageFolder.discard(path));
  }
  report(found, parsed.has("dry-run"), io);
  return failed ? EXIT.failed : EXIT.ok;
}

function report(found: readonly Leftover[], dryRun: boolean, io: CommandIo): void {
  const rows = found.map(({ path, what, bytes }) =>
    [formatBytes(bytes), `${printable(path)}  (${printable(what)})`] as const
  );
  io.out(table(rows).map((line) => `${line.slice(2)}\n`).join(""));
  const bytes = formatBytes(found.reduce((sum, leftover) => sum + leftover.bytes, 0));
  const count = `${found.length} folder${found.length === 1 ? "" : "s"}, ${bytes}`;
  io.err(
    found.length === 0 ? "Nothing is left over" : `${dryRun ? "Would remove" : "Removed"} ${count}`,
  );
}

/** Where this user's processes have folders. */
async function temporaryFolders(): Promise<{ parent: string; uid: number | null }[]> {
  const probe = await Deno.makeTempDir();
  const { uid } = await Deno.lstat(probe);
  await Deno.remove(probe);
  const cache = cacheFolder();
  const run = cache === undefined ? undefined : join(cache, "run");
  const parents = [dirname(probe), ...(run !== undefined && await isPlainFolder(run) ? [run] : [])];
  return parents.map((parent) => ({ parent, uid }));
}

/** The folders of sessions in which nothing was changed since a time. */
async function oldSessions(sessions: string, before: number): Promise<string[]> {
  const old: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(sessions)) {
    const path = join(sessions, name);
    if (isDirectory && (await usageOf(path)).changedAt < before) old.push(path);
  }
  return old;
}

/** Longer paths are not looked at: code makes deeper folders than the system can name. */
const MAX_PATH = 2000;

/**
 * How large a folder is, and when something in it was changed last, as far as it can be looked at.
 * Links are not followed.
 */
async function usageOf(root: string): Promise<{ bytes: number; changedAt: number }> {
  const usage = { bytes: 0, changedAt: 0 };
  const paths = [root];
  for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
    const info = await lstatIfPresent(path);
    if (info === undefined) continue;
    if (!info.isDirectory) usage.bytes += info.size;
    usage.changedAt = Math.max(usage.changedAt, info.mtime?.getTime() ?? Infinity);
    if (!info.isDirectory || path.length > MAX_PATH) continue;
    try {
      for await (const { name } of Deno.readDir(path)) paths.push(join(path, name));
    } catch (error) {
      const { NotADirectory, NotFound, PermissionDenied } = Deno.errors;
      const isClosed = [NotADirectory, NotFound, PermissionDenied]
        .some((closed) => error instanceof closed);
      if (!isClosed) throw error; // closed by code, which can be removed all the same
    }
  }
  return usage;
}
