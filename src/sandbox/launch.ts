import { proxyFolder, type SandboxSettings } from "./policy.ts";
import type { ProgramPath } from "../process/program.ts";
import { srtArguments, type SrtCommand } from "./srt.ts";
import { buildWall } from "./wall.ts";

/** What {@linkcode writeSettings} is given. */
export interface WriteSettingsInput {
  /** The sandbox runtime. */
  readonly srt: SrtCommand;
  /** Its settings. */
  readonly settings: SandboxSettings;
  /** What only the host sees. It exists, and has nothing of a sandbox yet. */
  readonly hostPrivate: string;
  /** The folder that code writes to, without symbolic links in its path. */
  readonly workspace: string;
  /** What runs inside, by its path, and its arguments. */
  readonly command: readonly string[];
  /** Its home directory, where that is neither the session's nor the host's. */
  readonly home?: string | undefined;
}

/** How the sandbox is started. */
export interface SandboxLaunch {
  /** The program. */
  readonly command: ProgramPath;
  /** Its arguments. */
  readonly args: readonly string[];
  /** What leads it to its own folder. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * Writes the settings, and on Linux what makes the inner sandbox, where nobody inside sees them.
 */
export async function writeSettings(input: WriteSettingsInput): Promise<SandboxLaunch> {
  const { srt, hostPrivate, command } = input;
  const file = `${hostPrivate}/srt.json`;
  await Deno.mkdir(proxyFolder(hostPrivate));
  const settings = Deno.build.os === "linux"
    ? await buildWall(input.settings, {
      hostPrivate,
      workspace: input.workspace,
      bwrap: srt.programs.bwrapPath,
      home: input.home,
    })
    : input.settings;
  await Deno.writeTextFile(file, JSON.stringify({ ...srt.programs, ...settings }));
  return {
    command: srt.command,
    args: [...srt.args, ...srtArguments(file, command)],
    env: { TMPDIR: proxyFolder(hostPrivate) },
  };
}
