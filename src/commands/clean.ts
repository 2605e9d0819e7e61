import { DAY_MS } from "../base/numbers.ts";
import { type Abandoned, abandonedIn, discardAbandoned } from "../files/workspace_folders.ts";
import { statesFolder } from "../files/workspace_state.ts";
import { folderUsage } from "../files/folder_usage.ts";
import { forEachOldSession, KEPT_DAYS, removeSession } from "../mcp_server/http/session_folders.ts";
import { forEachAbandoned, ownRunFolders, removeHeld } from "../files/private_folder.ts";
import { isPlainFolder } from "../files/safe.ts";
import { PackageFolder } from "../python/packages.ts";
import { cachesFolder } from "../place/workspace_cache.ts";
import { formatBytes } from "../kernel/text.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, table } from "./command.ts";
import { printable } from "./terminal/columns.ts";
import { workspaceOf } from "./shared.ts";

export const command: Command = {
  usage: "[OPTIONS]",
  options: {
    "dry-run": { help: "List what would be removed without removing it" },
    days: {
      value: "N",
      help: "Remove sessions and state that did not change for N days (default: 30)",
    },
    data: { help: "Also remove the packages of `ipybox setup --data`" },
    workspace: { value: "DIR", help: "The workspace whose sessions are removed (default: .)" },
  },
  notes: [
    "Removes old session folders of `ipybox mcp --http` for the workspace, except",
    "those in use. For all workspaces, whatever --workspace says, it removes",
    "temporary folders of killed processes, and the packages, caches, decisions,",
    "session folders and audit logs of workspaces that no longer exist. After you",
    "moved a workspace, run `ipybox where --adopt OLD` first.",
    "",
    "Example:",
    "",
    "  ipybox clean --dry-run",
  ].join("\n"),
  run,
};

interface Leftover {
  readonly path: string;
  readonly content: string;
  readonly bytes: number;
}

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const workspace = await workspaceOf(parsed);
  const days = parsed.positiveNumber("days") ?? KEPT_DAYS;
  const verb = parsed.has("dry-run") ? "Would remove" : "Removing";
  io.err(printable(`${verb} old sessions of ${workspace}, and leftovers of all workspaces`));
  const found: Leftover[] = [];
  let failed = false;
  const take = async (leftover: Omit<Leftover, "bytes">, remove: () => Promise<void>) => {
    const { bytes } = await folderUsage(leftover.path);
    try {
      if (!parsed.has("dry-run")) await remove();
      found.push({ ...leftover, bytes });
    } catch (error) {
      failed = true; // the others are still removed
      io.err(printable(`Cannot remove all of ${leftover.path}: ${error}`));
    }
  };
  for (const parent of await ownRunFolders()) {
    await forEachAbandoned(parent, async (path) => {
      await take(
        { path, content: "temporary files of a process that has ended" },
        () => removeHeld(path),
      );
    });
  }
  const before = Date.now() - days * DAY_MS;
  const live = await forEachOldSession(workspace, { before }, async (path) => {
    await take({ path, content: "a session's folder" }, () => removeSession(path));
  });
  if (live > 0) io.err(`Kept ${live} ${live === 1 ? "session" : "sessions"} in use`);
  const takeOf = (kind: string, { path, workspace }: Abandoned, remove = discardAbandoned) =>
    take({ path, content: `${kind} of ${workspace}, which no longer exists` }, () => remove(path));
  for (const each of await PackageFolder.abandoned()) {
    await takeOf("packages", each, PackageFolder.discard);
  }
  for (const each of await abandonedIn(cachesFolder())) await takeOf("cache", each);
  for (const each of await abandonedIn(statesFolder())) {
    if ((await folderUsage(each.path)).changedAt >= before) continue; // it may have moved, or be unmounted
    await takeOf("decisions, sessions and audit log", each);
  }
  const common = PackageFolder.commonFolder();
  if (parsed.has("data") && await isPlainFolder(common)) {
    const content = "packages of all workspaces";
    await take({ path: common, content }, () => PackageFolder.removeCommon());
  }
  report(found, parsed.has("dry-run"), io);
  return failed ? EXIT.failed : EXIT.ok;
}

function report(found: readonly Leftover[], dryRun: boolean, io: CommandIo): void {
  const rows = found.map(({ path, content, bytes }) =>
    [formatBytes(bytes), `${printable(path)}  (${printable(content)})`] as const
  );
  io.out(table(rows).map((line) => `${line.slice(2)}\n`).join(""));
  const bytes = formatBytes(found.reduce((sum, leftover) => sum + leftover.bytes, 0));
  const count = `${found.length} folder${found.length === 1 ? "" : "s"}, ${bytes}`;
  io.err(
    found.length === 0 ? "Nothing to remove" : `${dryRun ? "Would remove" : "Removed"} ${count}`,
  );
}
