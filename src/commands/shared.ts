/**
 * Options and small steps that several commands share.
 *
 * @module
 */
import { join, resolve } from "node:path";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { type OptionSpec, type ParsedArgs, UsageError } from "./command.ts";

/** `--workspace DIR`, an option of every command that works on one. */
export const WORKSPACE: OptionSpec = {
  value: "DIR",
  help: "The workspace: the code's working directory, which holds mcptools/ (default: .)",
};

/** `--python PATH`, an option of every command that runs code. */
export const PYTHON: OptionSpec = {
  value: "PATH",
  help: "The Python that runs the code (default: the one made by `ipybox setup`)",
};

/** The options about the sandbox, of every command that runs code. */
export const SANDBOX: Readonly<Record<string, OptionSpec>> = {
  "no-sandbox": { help: "Run without the OS sandbox: the code can do all that you can" },
  "sandbox-config": {
    value: "FILE",
    help: "Settings added to the sandbox's own, such as allowed domains",
  },
};

/**
 * What the command line says of the sandbox.
 *
 * @throws {UsageError} If it contradicts itself.
 */
export function sandboxOf(args: ParsedArgs): boolean | SandboxOptions {
  const config = args.value("sandbox-config");
  if (config === undefined) return !args.has("no-sandbox");
  if (args.has("no-sandbox")) {
    throw new UsageError("Options --no-sandbox and --sandbox-config contradict each other");
  }
  return { config: resolve(config) };
}

/**
 * The workspace that the command line names, as an absolute path.
 *
 * @throws {UsageError} If it is no directory.
 */
export async function workspaceOf(args: ParsedArgs): Promise<string> {
  const workspace = resolve(args.value("workspace") ?? ".");
  const info = await Deno.stat(workspace).catch((error: unknown) => {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  });
  if (info === undefined) {
    throw new UsageError(`Workspace "${workspace}" does not exist: create it or name another`);
  }
  if (!info.isDirectory) throw new UsageError(`Workspace "${workspace}" is not a directory`);
  return await Deno.realPath(workspace);
}

/**
 * A text from code, a server or a file, made safe for a terminal.
 *
 * Control characters, and the invisible ones that reorder text, are shown as escapes.
 */
export function printable(text: string): string {
  return text.replace(
    // deno-lint-ignore no-control-regex -- control characters are what this is about
    /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** The folder of the generated Python APIs. */
export function mcptoolsOf(workspace: string): string {
  return join(workspace, "mcptools");
}
