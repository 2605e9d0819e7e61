/**
 * The sandbox runtime, `srt`, as a thing to check and to install.
 *
 * @module
 */
import { EnvironmentNotReadyError } from "../errors.ts";
import { silentLogger } from "../log.ts";
import type { Prerequisite } from "./preflight.ts";
import { runProgram } from "../process/run_program.ts";
import { findSrt, SRT_PACKAGE, SRT_VERSION, type SrtCommand, srtDeno } from "./srt.ts";

const SPECIFIER = `npm:${SRT_PACKAGE}@${SRT_VERSION}`;

/** Starts the `srt` that the sandbox would use, without downloading anything. */
export async function checkSrt(): Promise<Prerequisite> {
  try {
    const srt = await findSrt({ log: silentLogger, offline: true });
    const version = await startedVersion(srt);
    const detail = srt.args.length === 0 ? srt.command : "in Deno's cache";
    if (version !== undefined) return { name: "srt", state: "ok", version, detail, fix: null };
  } catch (error) {
    if (!(error instanceof EnvironmentNotReadyError)) throw error;
    const { message: detail, fix } = error;
    return { name: "srt", state: "missing", version: null, detail, fix };
  }
  // A download that was interrupted leaves the package without what it depends on.
  const detail = "srt is there, but does not start";
  return { name: "srt", state: "missing", version: null, detail, fix: `deno cache ${SPECIFIER}` };
}

/** Puts the pinned `srt` into Deno's cache. */
export async function cacheSrt(signal?: AbortSignal): Promise<void> {
  const { success, stderr } = await runProgram(await srtDeno(), {
    args: ["cache", "--no-config", SPECIFIER],
    env: { NO_COLOR: "1" },
    signal,
  });
  if (success) return;
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  throw new EnvironmentNotReadyError(
    `Cannot download ${SPECIFIER}:${lines.slice(0, 8).map((line) => `\n  ${line}`).join("")}`,
    "Connect to the network, or to the npm registry of your .npmrc, and run: ipybox setup",
  );
}

async function startedVersion({ command, args, env }: SrtCommand): Promise<string | undefined> {
  const { success, stdout } = await runProgram(command, { args: [...args, "--version"], env });
  return success ? stdout.trim() || undefined : undefined;
}
