import { resolve } from "node:path";
import { adoptState, statePath } from "../files/workspace_state.ts";
import { ifPresent } from "../files/safe.ts";
import { cachePath } from "../place/workspace_cache.ts";
import { PackageFolder } from "../python/packages.ts";
import {
  type Command,
  type CommandIo,
  EXIT,
  type ParsedArgs,
  table,
  UsageError,
} from "./command.ts";
import { outputColumns, printable } from "./terminal/columns.ts";
import { WORKSPACE, workspaceOf } from "./shared.ts";

export const command: Command = {
  usage: "[OPTIONS]",
  options: {
    adopt: { value: "OLD", help: "Take over the state of a workspace that was at the path OLD" },
    workspace: WORKSPACE,
  },
  notes: [
    "The state is your permanent decisions, the audit log, the observed results of",
    "tools and the folders of sessions over HTTP. It belongs to the workspace's path:",
    "after you move a workspace, --adopt OLD takes it over.",
    "",
    "Example:",
    "",
    "  ipybox where --adopt ~/old/place",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const workspace = await workspaceOf(parsed);
  const former = parsed.value("adopt");
  if (former !== undefined) await adopt(workspace, resolve(former));
  const rows = [
    ["settings", `${workspace}/.ipybox`],
    ["state", await statePath(workspace) ?? "none: set HOME or XDG_STATE_HOME"],
    ["packages", PackageFolder.folder(workspace)],
    ["cache", cachePath(workspace) ?? "none: set HOME or XDG_CACHE_HOME"],
  ] as const;
  const shown = rows.map(([name, path]) => [name, printable(path)] as const);
  // A path is not broken where a program reads it.
  const lines = table(shown, outputColumns(io) ?? Infinity);
  io.out(lines.map((line) => `${line.slice(2)}\n`).join(""));
  return EXIT.ok;
}

async function adopt(workspace: string, former: string): Promise<void> {
  if (await ifPresent(Deno.lstat(former)) !== undefined) {
    throw new UsageError(`"${former}" still exists, and keeps its state`);
  }
  switch (await adoptState(workspace, former)) {
    case "adopted":
      return;
    case "missing":
      throw new UsageError(`There is no state of a workspace at "${former}"`);
    case "occupied":
      throw new UsageError(`The workspace "${workspace}" has state of its own already`);
  }
}
