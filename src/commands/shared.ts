import { join, resolve } from "node:path";
import { nearestNames } from "../base/nearest.ts";
import { ifPresent } from "../files/safe.ts";
import { checkServerName } from "../mcp/params.ts";
import { realWorkspace } from "../sandbox/workspace.ts";
import { type OptionSpec, type ParsedArgs, UsageError } from "./command.ts";

/** `--workspace DIR`, an option of every command that works on one. */
export const WORKSPACE: OptionSpec = {
  value: "DIR",
  help: "The workspace: the code's working directory, which holds mcptools/ (default: .)",
};

/** The workspace that the command line names, as an absolute path. */
export async function workspaceOf(args: ParsedArgs): Promise<string> {
  return await workspaceAt(args.value("workspace") ?? ".");
}

/** The workspace at a path, as an absolute path. */
export async function workspaceAt(path: string): Promise<string> {
  const workspace = absolute(path);
  const info = await ifPresent(Deno.stat(workspace));
  if (info === undefined) {
    throw new UsageError(`Workspace "${workspace}" does not exist: create it or name another`);
  }
  if (!info.isDirectory) throw new UsageError(`Workspace "${workspace}" is not a directory`);
  return await realWorkspace(workspace);
}

function absolute(path: string): string {
  try {
    return resolve(path);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.InvalidData)) throw cause;
    const message = "The path of the current folder is not UTF-8: rename the folder, or name a " +
      "workspace elsewhere by its absolute path, with --workspace";
    throw new UsageError(message, { cause });
  }
}

/** Checks a server's name that the command line gives, before it becomes a path. */
export function requireServerName(name: string): void {
  try {
    checkServerName(name);
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(error.message, { cause: error });
    throw error;
  }
}

/** Creates the error for an unknown server, which suggests a known one that may be meant. */
export function unknownServer(name: string, registered: readonly string[]): UsageError {
  if (registered.length === 0) return new UsageError("No servers are registered yet");
  const [near] = nearestNames(name, registered, 1);
  const hint = near === undefined ? "." : `; did you mean "${near}"?`;
  const all = registered.join(", ");
  return new UsageError(`No server "${name}" is registered${hint} Registered: ${all}`);
}

/** Reads a file that the command line names. */
export async function readUserFile(path: string): Promise<string> {
  try {
    if ((await Deno.stat(path)).isDirectory) {
      throw new UsageError(`"${path}" is a directory, not a file`);
    }
    return (await Deno.readTextFile(path)).replace(/^\ufeff/, ""); // Windows' editors write it
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) throw new UsageError(`No file "${path}"`, { cause });
    if (cause instanceof Deno.errors.PermissionDenied) {
      throw new UsageError(`Cannot read file "${path}": permission denied`, { cause });
    }
    throw cause;
  }
}

/** How to fix servers without a Python API, such as those added to the registry by hand. */
export const REGISTER_AGAIN =
  "register it again, or all of them with `ipybox register --from .ipybox/mcp.json`";

export function mcptoolsOf(workspace: string): string {
  return join(workspace, "mcptools");
}
