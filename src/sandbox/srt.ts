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
  findPrograms,
  type ProgramPath,
  type ProgramSearch,
} from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import type { Prerequisite } from "./prerequisites.ts";
import { requireOwnDeno, requireOwnProgram } from "./workspace.ts";

/** The sandbox runtime's name on npm. */
export const SRT_PACKAGE = "@anthropic-ai/sandbox-runtime";

/** The version that is run through Deno. It is updated only after the tests pass with a newer one. */
export const SRT_VERSION = "0.0.83";

const SPECIFIER = `npm:${SRT_PACKAGE}@${SRT_VERSION}`;

/** The oldest version accepted from the PATH: older ones let code out (see their changelog). */
const OLDEST = [0, 0, 78] as const;

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

/** How `srt` is started on this machine. */
export interface SrtCommand {
  readonly command: ProgramPath;
  /** The arguments before those of `srt` itself. */
  readonly args: readonly string[];
  /** The environment that it needs. */
  readonly env: Readonly<Record<string, string>>;
  /** The programs for its settings, so that it does not search for them itself. */
  readonly programs: SrtPrograms;
  /** Its version. */
  readonly version: string;
  /** The module to import as its library, if it is the pinned version. */
  readonly library?: string;
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

/** The environment of `srt`, which passes most of it to its child processes. */
export function srtEnvironment(
  { env }: SrtCommand,
  { path, hostPrivate, temporary }: {
    /** The search path for programs. */
    readonly path: string;
    /** A folder that only the host can see. */
    readonly hostPrivate: string;
    /** The folder for temporary files inside. */
    readonly temporary: string;
  },
): Record<string, string> {
  return {
    PATH: path,
    HOME: hostPrivate, // srt lets code inside write to some folders below it
    CLAUDE_CODE_TMPDIR: temporary,
    ...env,
  };
}

/** The arguments of `srt`. */
export function srtArguments(settings: string, command: readonly string[]): string[] {
  // srt accepts its own options anywhere before "--", even after the command.
  return ["--settings", settings, "--", ...command];
}

/**
 * Finds the sandbox runtime: `srt` on the PATH, or else the pinned package through Deno, which is
 * downloaded on first use.
 */
export async function findSrt(options: FindSrtOptions): Promise<SrtCommand> {
  const [srt, programs] = await allDone([
    onPath(options).then(async (found) => found ?? await throughDeno(options)),
    srtPrograms(options),
  ]);
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

type SrtItself = Omit<SrtCommand, "programs">;

async function onPath(options: FindSrtOptions): Promise<SrtItself | undefined> {
  for await (const command of findPrograms("srt", options)) {
    const found = await packageOf(command);
    if (found === undefined) continue;
    if (!isRecent(found.version)) {
      options.log.warn(
        `${command} is version ${found.version}, which is too old; ` +
          `version ${SRT_VERSION} is run through Deno instead`,
      );
      continue;
    }
    return { command, args: [], env: {}, version: found.version };
  }
  return undefined;
}

const manifestSchema = z.object({ name: z.literal(SRT_PACKAGE), version: z.string() });

/** The package that a command belongs to, if it is the sandbox runtime's. */
async function packageOf(command: string): Promise<{ root: string; version: string } | undefined> {
  try {
    const root = (await Deno.realPath(command)).replace(/\/dist\/[^/]*$/, "");
    const manifest = manifestSchema.safeParse(
      JSON.parse(await Deno.readTextFile(`${root}/package.json`)),
    );
    return manifest.success ? { root, version: manifest.data.version } : undefined;
  } catch {
    return undefined; // missing, not readable with our permissions, or some other program
  }
}

function isRecent(version: string): boolean {
  const numbers = version.split(/[.-]/).map(Number);
  for (const [i, oldest] of OLDEST.entries()) {
    const number = numbers[i] ?? 0;
    if (number !== oldest) return number > oldest;
  }
  return true;
}

const infoSchema = z.object({ denoDir: z.string(), npmCache: z.string() });

async function throughDeno(options: FindSrtOptions): Promise<SrtItself> {
  const deno = await srtDeno(options);
  const usual = usualCache();
  const there = usual === undefined ? undefined : await findVendor(`${usual}/npm`);
  const { denoDir, vendor } = usual === undefined || there === undefined
    ? await askedOrDownloaded(deno, options)
    : { denoDir: usual, vendor: there };
  await requireOut(deno, vendor ?? `${denoDir}/npm`);
  return {
    command: deno,
    args: ["run", "--quiet", "--no-config", "--cached-only", "-A", SPECIFIER],
    env: { DENO_DIR: denoDir, DENO_NO_UPDATE_CHECK: "1" },
    version: SRT_VERSION,
    library: SPECIFIER,
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
    throw new SandboxUnavailableError("srt is not in Deno's cache", `deno cache ${SPECIFIER}`);
  }
  if (vendor === undefined) {
    log.info(`Downloading the sandbox runtime (${SPECIFIER})`);
    // The command's environment is the user's own: it knows their proxies and registries.
    await denoOutput(deno, ["cache", "--no-config", SPECIFIER], signal);
    vendor = await findVendor(info.npmCache);
  }
  return { denoDir: info.denoDir, vendor };
}

/** The Deno that runs the sandbox runtime. */
async function srtDeno(search: ProgramSearch = {}): Promise<ProgramPath> {
  try {
    return await denoProgram(search);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SandboxUnavailableError(
      `Cannot run the sandbox runtime srt, nor download it with Deno: ${cause.message}`,
      `npm install -g ${SRT_PACKAGE}@${SRT_VERSION}`,
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
  const end = await runProgram(deno, { args, env: { NO_COLOR: "1" }, signal });
  if (end.success) return end.stdout;
  throw new SandboxUnavailableError(
    `Cannot download the sandbox runtime: \`deno ${args.join(" ")}\` failed: ${end.stderr.trim()}`,
    `deno cache npm:${SRT_PACKAGE}@${SRT_VERSION}`,
  );
}

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
  // An interrupted download leaves the package without its dependencies.
  const detail = "srt is installed, but does not start";
  return { name: "srt", state: "missing", version: null, detail, fix: `deno cache ${SPECIFIER}` };
}

/** Downloads the pinned `srt` into Deno's cache. */
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
    "Connect to the network, or to the npm registry in your .npmrc, and run: ipybox setup",
  );
}

async function startedVersion({ command, args, env }: SrtCommand): Promise<string | undefined> {
  const { success, stdout } = await runProgram(command, { args: [...args, "--version"], env });
  return success ? stdout.trim() || undefined : undefined;
}
