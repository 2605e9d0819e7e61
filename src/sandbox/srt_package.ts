/**
 * The sandbox runtime, `srt`: the copy on the `PATH`, or the pinned one that Deno keeps.
 *
 * @module
 */
import { EnvironmentNotReadyError } from "../errors.ts";
import type { Prerequisite } from "./preflight.ts";

/** The version of `srt` that ipybox was tested with. */
export const SRT_VERSION = "0.0.83";

/** What Deno runs as `srt`. */
export const SRT_PACKAGE: string = `npm:@anthropic-ai/sandbox-runtime@${SRT_VERSION}`;

/**
 * The program that runs `srt` where none is on the `PATH`.
 *
 * @returns Deno's own path; in a compiled binary, which cannot run packages, `"deno"`.
 */
export function denoCommand(): string {
  return Deno.build.standalone ? "deno" : Deno.execPath();
}

/**
 * Checks that Deno has the pinned `srt` in its cache, so that the sandbox starts offline.
 *
 * @returns What was found.
 * @throws {Deno.errors.NotCapable} If Deno's permissions do not allow to run it.
 */
export async function checkSrt(): Promise<Prerequisite> {
  const args = ["run", "-A", "--cached-only", "--no-config", SRT_PACKAGE, "--version"];
  const version = await output(args).then(({ success, stdout }) => success ? stdout.trim() : null);
  const found = version !== null && version !== "";
  return {
    name: "srt",
    state: found ? "ok" : "missing",
    version: found ? version : null,
    detail: found ? "is in Deno's cache" : "srt is not in Deno's cache",
    fix: found ? null : `deno cache ${SRT_PACKAGE}`,
  };
}

/**
 * Puts the pinned `srt` into Deno's cache.
 *
 * @param signal Ends the download.
 * @throws {EnvironmentNotReadyError} If it cannot be downloaded.
 * @throws {unknown} The signal's reason when it aborts.
 */
export async function cacheSrt(signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  const { success, stderr } = await output(["cache", "--no-config", SRT_PACKAGE], signal);
  signal?.throwIfAborted();
  if (success) return;
  const lines = stderr.split("\n").filter((line) => line.trim() !== "").slice(0, 8);
  throw new EnvironmentNotReadyError(
    `Cannot download ${SRT_PACKAGE}:${lines.map((line) => `\n  ${line}`).join("")}`,
    `Connect to the network, or to the npm registry of your .npmrc, and run: ipybox setup`,
  );
}

async function output(
  args: string[],
  signal?: AbortSignal,
): Promise<{ success: boolean; stdout: string; stderr: string }> {
  const command = new Deno.Command(denoCommand(), {
    args,
    cwd: "/", // a deno.json or .npmrc of the current folder must not have a say
    env: { NO_COLOR: "1" },
    stdin: "null",
    ...(signal === undefined ? {} : { signal }),
  });
  try {
    const { success, stdout, stderr } = await command.output();
    const decoder = new TextDecoder();
    return { success, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return { success: false, stdout: "", stderr: "There is no deno on the PATH" };
  }
}
