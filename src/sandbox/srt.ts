import { isAbsolute } from "node:path";
import { z } from "zod";
import { ConfigError, EnvironmentNotReadyError, SandboxUnavailableError } from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { hostEnv, mayRead } from "../base/permission.ts";
import { allDone } from "../base/signals.ts";
import { ifPresent } from "../files/safe.ts";
import {
  denoProgram,
  findProgram,
  type ProgramPath,
  type ProgramSearch,
} from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import type { Prerequisite } from "./prerequisites.ts";
import { requireOwnDeno, requireOwnProgram } from "./workspace.ts";

/** The sandbox runtime's name on npm. */
export const SRT_PACKAGE = "@anthropic-ai/sandbox-runtime";

/** The only version that is run. It is updated only after the tests pass with a newer one. */
export const SRT_VERSION = "0.0.83";

/** The module to import as its library. */
export const SRT_LIBRARY = `npm:${SRT_PACKAGE}@${SRT_VERSION}`;

/** The arguments with which Deno runs a program that uses it. */
export const DENO_ARGS = ["run", "--quiet", "--no-config", "--cached-only", "-A"];

/** A path in `srt`'s settings. Plain text that looks like a pattern is one. */
type SettingsPath = string | { readonly path: string; readonly literal: true };

/** The part of `srt`'s settings file that ipybox writes. */
export interface SrtSettings extends SrtPrograms {
  readonly network: {
    readonly allowedDomains: readonly string[];
    readonly deniedDomains: readonly string[];
    readonly strictAllowlist: boolean;
    readonly allowLocalBinding: boolean;
    readonly allowAllUnixSockets?: boolean;
  };
  readonly filesystem: {
    readonly denyRead: readonly SettingsPath[];
    readonly allowRead: readonly SettingsPath[];
    readonly allowWrite: readonly SettingsPath[];
    readonly denyWrite: readonly SettingsPath[];
    readonly disabled?: boolean;
  };
  /** Shows the `/proc` that is there instead of making one. */
  readonly enableWeakerNestedSandbox?: boolean;
  /** Lets its child processes create namespaces. */
  readonly allowNestedUserNamespaces?: boolean;
  /** The program that starts the command, instead of `srt`'s own system call filter. */
  readonly seccomp?: { readonly applyPath: string };
}

/** How `srt` is started on this machine, through Deno. */
export interface SrtCommand {
  readonly command: ProgramPath;
  /** The environment that it needs. */
  readonly env: Readonly<Record<string, string>>;
  /** The programs for its settings, so that it does not search for them itself. */
  readonly programs: SrtPrograms;
}

/** The part of its settings with the paths of its programs, without those that were not found. */
interface SrtPrograms {
  readonly bwrapPath?: string;
  readonly socatPath?: ProgramPath;
  readonly ripgrep?: { readonly command: ProgramPath };
}

/** Options of {@linkcode findSrt}. */
interface FindSrtOptions extends ProgramSearch {
  /** Receives log messages. */
  log: Logger;
  /** Cancels the search. */
  signal?: AbortSignal;
  /**
   * Fails instead of downloading it.
   *
   * @default {false}
   */
  offline?: boolean;
}

/** Finds the sandbox runtime, which is downloaded on first use. */
export async function findSrt(options: FindSrtOptions): Promise<SrtCommand> {
  const [srt, programs] = await allDone([throughDeno(options), srtPrograms(options)]);
  return { ...srt, programs };
}

async function srtPrograms(search: ProgramSearch): Promise<SrtPrograms> {
  const [bwrapPath, socatPath, rg] = await allDone([
    findProgram("bwrap", search),
    findProgram("socat", search),
    findProgram("rg", search),
  ]);
  return {
    bwrapPath,
    socatPath,
    ripgrep: rg === undefined ? undefined : { command: rg },
  };
}

const infoSchema = z.object({ denoDir: z.string(), npmCache: z.string() });

async function throughDeno(options: FindSrtOptions): Promise<Omit<SrtCommand, "programs">> {
  const deno = await srtDeno(options);
  const usual = usualCache();
  const there = usual === undefined ? undefined : await findVendor(`${usual}/npm`);
  const { denoDir, vendor } = usual === undefined || there === undefined
    ? await askedOrDownloaded(deno, options)
    : { denoDir: usual, vendor: there };
  await requireOut(deno, vendor ?? `${denoDir}/npm`);
  return {
    command: deno,
    env: { DENO_DIR: denoDir, DENO_NO_UPDATE_CHECK: "1" },
  };
}

/** Refuses programs that the host runs here if executed code could have changed them. */
async function requireOut(deno: ProgramPath, runtime: string): Promise<void> {
  try {
    await allDone([
      requireOwnDeno(deno),
      requireOwnProgram(runtime, { what: "the sandbox runtime" }),
    ]);
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    const fix = "Move Deno, and its cache (DENO_DIR or XDG_CACHE_HOME), out of the workspace";
    throw new SandboxUnavailableError(cause.message, fix, { cause });
  }
}

/** The usual location of Deno's cache, because asking Deno takes as long as starting it. */
function usualCache(): string | undefined {
  const home = hostEnv("HOME");
  if (Deno.build.os !== "linux" || home === undefined) return undefined;
  const cache = hostEnv("DENO_DIR") ?? `${hostEnv("XDG_CACHE_HOME") ?? `${home}/.cache`}/deno`;
  return isAbsolute(cache) && mayRead(`${cache}/npm`) ? cache : undefined;
}

/** Asks Deno for its cache and the package in it, and downloads the package if it is missing. */
async function askedOrDownloaded(
  deno: ProgramPath,
  { log, signal, offline = false }: FindSrtOptions,
): Promise<{ denoDir: string; vendor: string | undefined }> {
  const info = infoSchema.parse(JSON.parse(await denoOutput(deno, ["info", "--json"], signal)));
  let vendor = await findVendor(info.npmCache);
  if (vendor === undefined && offline) {
    throw new SandboxUnavailableError("srt is not in Deno's cache", `deno cache ${SRT_LIBRARY}`);
  }
  if (vendor === undefined) {
    log.info(`Downloading the sandbox runtime (${SRT_LIBRARY})`);
    await cacheSrt(deno, signal);
    vendor = await findVendor(info.npmCache);
  }
  return { denoDir: info.denoDir, vendor };
}

/** The Deno that runs the sandbox runtime. */
export async function srtDeno(search: ProgramSearch = {}): Promise<ProgramPath> {
  try {
    return await denoProgram(search);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SandboxUnavailableError(
      `Cannot run the sandbox runtime srt: ${cause.message}`,
      "Install Deno (https://deno.com), which runs it",
      { cause },
    );
  }
}

/** The package's folder in Deno's cache, whichever registry it came from. */
async function findVendor(npmCache: string): Promise<string | undefined> {
  for (const { name } of await ifPresent(Array.fromAsync(Deno.readDir(npmCache))) ?? []) {
    const vendor = `${npmCache}/${name}/${SRT_PACKAGE}/${SRT_VERSION}/vendor`;
    if (await Deno.stat(vendor).then(() => true, () => false)) return vendor;
  }
  return undefined;
}

async function denoOutput(
  deno: ProgramPath,
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<string> {
  // A deno.json or .npmrc in the current folder must have no effect.
  const { success, stdout, stderr } = await runProgram(deno, {
    args,
    env: { NO_COLOR: "1" },
    signal,
  });
  if (success) return stdout;
  const lines = stderr.split("\n").filter((line) => line.trim() !== "").slice(0, 8);
  throw new SandboxUnavailableError(
    `Cannot download the sandbox runtime: \`deno ${args.join(" ")}\` failed:${
      lines.map((line) => `\n  ${line}`).join("")
    }`,
    "Connect to the network, or to the npm registry in your .npmrc, and run: ipybox setup",
  );
}

/** Starts the `srt` that the sandbox would use, without downloading anything. */
export async function checkSrt(): Promise<Prerequisite> {
  try {
    const srt = await findSrt({ log: silentLogger, offline: true });
    const version = await startedVersion(srt);
    const detail = "in Deno's cache";
    if (version !== undefined) return { name: "srt", state: "ok", version, detail, fix: null };
  } catch (error) {
    if (!(error instanceof EnvironmentNotReadyError)) throw error;
    const { message: detail, fix } = error;
    return { name: "srt", state: "missing", version: null, detail, fix };
  }
  // An interrupted download leaves the package without its dependencies.
  const detail = "srt is installed, but does not start";
  return { name: "srt", state: "missing", version: null, detail, fix: `deno cache ${SRT_LIBRARY}` };
}

/** Downloads the pinned `srt` into Deno's cache, through the user's own proxies and registries. */
export async function cacheSrt(deno: ProgramPath, signal?: AbortSignal): Promise<void> {
  await denoOutput(deno, ["cache", "--no-config", SRT_LIBRARY], signal);
}

async function startedVersion({ command, env }: SrtCommand): Promise<string | undefined> {
  const args = [...DENO_ARGS, SRT_LIBRARY, "--version"];
  const { success, stdout } = await runProgram(command, { args, env });
  return success ? stdout.trim() || undefined : undefined;
}
