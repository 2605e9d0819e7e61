import { join, relative } from "node:path";
import { ConfigError } from "../../base/errors.ts";
import { formatBytes } from "../../kernel/text.ts";
import { copyBeneath, CopyLimitError, MAX_COPY_DEPTH } from "../../files/copy_beneath.ts";
import { removeFromWorkspace } from "../../files/remove_tree.ts";
import { projectPaths } from "../../sandbox/workspace.ts";
import { findProtectedPaths, isUncopied, lastingPaths } from "../../sandbox/protect.ts";
import type { SessionOptions } from "../session.ts";
import { sessionFolders } from "./session_folders.ts";

/** The limits on a session's copy. */
const MAX_BYTES = 2 ** 30;
const MAX_ENTRIES = 20_000;

/** Rejects sharing a workspace that would expose too much. */
export async function refuseUnshareable(
  workspace: string,
  share: "read-only" | "copy",
  sandbox: SessionOptions["sandbox"],
): Promise<void> {
  if (share === "read-only") {
    if (sandbox === false) {
      throw new ConfigError(
        "Cannot share the workspace read-only without the sandbox: use --share-workspace copy",
      );
    }
    if (typeof sandbox === "object" && sandbox.project !== undefined) {
      throw new ConfigError(
        `Cannot share the workspace read-only in addition to the project ${sandbox.project}, which code ` +
          "reads: remove one of them",
      );
    }
  }
  await projectPaths(workspace, sessionFolders(workspace));
}

/** Copies the workspace's files, all or none, but no state, secrets, devices or links out of it. */
export async function copyWorkspace(
  workspace: string,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const { unreadable } = await projectPaths(workspace, folder);
  const hidden = new Set(unreadable);
  const staging = join(folder, ".ipybox", "copy"); // which no code can access
  try {
    await Deno.mkdir(staging, { recursive: true, mode: 0o700 });
    await copyBeneath(workspace, staging, {
      maxBytes: MAX_BYTES,
      maxEntries: MAX_ENTRIES,
      leaveOut: (entry, parts) =>
        isUncopied(entry, parts.length === 1) || hidden.has(join(workspace, ...parts)) ||
        parts.length === 1 && parts[0] === "mcptools", // which each session already has
      signal,
    });
    for await (const { name } of Deno.readDir(staging)) {
      await Deno.rename(join(staging, name), join(folder, name));
    }
    await copyLasting(workspace, folder);
  } catch (error) {
    throw error instanceof CopyLimitError ? tooLarge(workspace, error) : error;
  } finally {
    await removeFromWorkspace(staging, folder);
  }
}

/** Paths that code may have created are not the user's in the copy either. */
async function copyLasting(workspace: string, folder: string): Promise<void> {
  const { readOnly } = await findProtectedPaths(workspace, { writable: false });
  const { paths } = await lastingPaths(workspace, readOnly);
  await lastingPaths(folder, paths.map((path) => join(folder, relative(workspace, path))));
}

function tooLarge(workspace: string, { limit }: CopyLimitError): ConfigError {
  const excess = {
    bytes: `its files exceed ${formatBytes(MAX_BYTES)} in total`,
    entries: `it has more than ${MAX_ENTRIES} files and folders`,
    depth: `its folders are nested more than ${MAX_COPY_DEPTH} deep`,
  }[limit];
  return new ConfigError(
    `Cannot copy the workspace ${workspace} to a session: ${excess}. Remove what is not needed, or ` +
      "start ipybox with --share-workspace read-only",
  );
}
