import { z } from "zod";
import { SandboxUnavailableError } from "../errors.ts";
import type { Logger } from "../log.ts";

/** The sandbox runtime's name on npm. */
export const SRT_PACKAGE = "@anthropic-ai/sandbox-runtime";

/** The version that is run through Deno. Newer ones are adopted after the tests passed with them. */
export const SRT_VERSION = "0.0.83";

/** The oldest version that is taken from the PATH: older ones let code out (see their changelog). */
const OLDEST = [0, 0, 78] as const;

/** How `srt` is started on this machine. */
export interface SrtCommand {
  readonly command: string;
  /** The arguments before those of `srt` itself. */
  readonly args: readonly string[];
  /** What it needs of the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** What must be readable inside: the helper that installs the system call filter. */
  readonly readable: readonly string[];
  /** Its version. */
  readonly version: string;
}

/** What {@linkcode findSrt} is told. */
export interface FindSrtOptions {
  /** Where programs are looked for; folders that executed code cannot write to. */
  path: string;
  /** Where it says what it does. */
  log: Logger;
  /** Ends the search. */
  signal?: AbortSignal;
  /**
   * Fails where it would have to be downloaded.
   *
   * @default {false}
   */
  offline?: boolean;
}

/**
 * The arguments of `srt`.
 *
 * @param settings The path of its settings file.
 * @param command What runs inside, by its path, and its arguments.
 * @returns The arguments.
 */
export function srtArguments(settings: string, command: readonly string[]): string[] {
  // srt looks for its own options everywhere before "--", even behind the command.
  return ["--settings", settings, "--", ...command];
}

/**
 * Finds the sandbox runtime: `srt` on the PATH, else the pinned package through Deno, which
 * downloads it when it is used for the first time.
 *
 * @param options Where to look.
 * @returns How it is started.
 * @throws {SandboxUnavailableError} It is not there and cannot be downloaded.
 */
export async function findSrt(options: FindSrtOptions): Promise<SrtCommand> {
  return await onPath(options) ?? await throughDeno(options);
}

async function onPath({ path, log }: FindSrtOptions): Promise<SrtCommand | undefined> {
  for (const folder of path.split(":")) {
    const command = `${folder}/srt`;
    const found = await packageOf(command);
    if (found === undefined) continue;
    if (!isRecent(found.version)) {
      log.warn(
        `${command} is version ${found.version}, which is too old; ` +
          `version ${SRT_VERSION} is run through Deno instead`,
      );
      continue;
    }
    const readable = [`${found.root}/vendor`];
    return { command, args: [], env: {}, readable, version: found.version };
  }
  return undefined;
}

const manifestSchema = z.object({ name: z.literal(SRT_PACKAGE), version: z.string() });

/** The package that a command belongs to, when it is the sandbox runtime's. */
async function packageOf(command: string): Promise<{ root: string; version: string } | undefined> {
  try {
    const root = (await Deno.realPath(command)).replace(/\/dist\/[^/]*$/, "");
    const manifest = manifestSchema.safeParse(
      JSON.parse(await Deno.readTextFile(`${root}/package.json`)),
    );
    return manifest.success ? { root, version: manifest.data.version } : undefined;
  } catch {
    return undefined; // not there, not readable with our permissions, or some other program
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

async function throughDeno(options: FindSrtOptions): Promise<SrtCommand> {
  const { path, log, signal } = options;
  const specifier = `npm:${SRT_PACKAGE}@${SRT_VERSION}`;
  const deno = denoCommand();
  const info = infoSchema.parse(JSON.parse(await denoOutput(deno, ["info", "--json"], options)));
  let vendor = await findVendor(info.npmCache);
  if (vendor === undefined && options.offline) {
    throw new SandboxUnavailableError("srt is not in Deno's cache", `deno cache ${specifier}`);
  }
  if (vendor === undefined) {
    log.info(`Downloading the sandbox runtime (${specifier})`);
    // The command's environment is the user's own: it knows their proxies and registries.
    await denoOutput(deno, ["cache", "--no-config", specifier], options);
    signal?.throwIfAborted();
    vendor = await findVendor(info.npmCache);
  }
  return {
    command: deno,
    args: ["run", "--quiet", "--no-config", "--cached-only", "-A", specifier],
    env: { DENO_DIR: info.denoDir, DENO_NO_UPDATE_CHECK: "1", PATH: path },
    readable: vendor === undefined ? [] : [vendor],
    version: SRT_VERSION,
  };
}

/** Ourselves, unless we are compiled, or may only run what is called `deno`. */
export function denoCommand(): string {
  if (Deno.build.standalone) return "deno";
  const command = Deno.execPath();
  const { state } = Deno.permissions.querySync({ name: "run", command });
  return state === "granted" ? command : "deno";
}

/** The package's folder in Deno's cache, whatever registry it came from. */
async function findVendor(npmCache: string): Promise<string | undefined> {
  try {
    for await (const { name } of Deno.readDir(npmCache)) {
      const vendor = `${npmCache}/${name}/${SRT_PACKAGE}/${SRT_VERSION}/vendor`;
      if (await Deno.stat(vendor).then(() => true, () => false)) return vendor;
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return undefined;
}

async function denoOutput(
  deno: string,
  args: string[],
  { path, signal }: FindSrtOptions,
): Promise<string> {
  const fix = `deno cache npm:${SRT_PACKAGE}@${SRT_VERSION}`;
  try {
    const output = await new Deno.Command(deno, {
      args,
      cwd: "/", // a deno.json or .npmrc of the current folder must not have a say
      env: { NO_COLOR: "1", PATH: path },
      stdin: "null",
      ...(signal === undefined ? {} : { signal }),
    }).output();
    signal?.throwIfAborted();
    if (output.success) return new TextDecoder().decode(output.stdout);
    const reason = new TextDecoder().decode(output.stderr).trim();
    throw new SandboxUnavailableError(
      `Cannot get the sandbox runtime: \`deno ${args.join(" ")}\` failed: ${reason}`,
      fix,
    );
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SandboxUnavailableError(
      "Cannot run the sandbox: neither `srt` nor `deno` is on the PATH",
      `npm install -g ${SRT_PACKAGE}@${SRT_VERSION}`,
      { cause },
    );
  }
}
