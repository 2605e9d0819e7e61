import { asset } from "../assets/mod.ts";
import { joinBytes } from "../base/bytes.ts";
import { isGranted, mayRead } from "../base/permission.ts";
import { abortable } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import { bytesOf } from "../base/streams.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { namedProgram, type ProgramPath } from "../process/program.ts";
import type { SandboxConfig } from "./config.ts";
import { DENO_ARGS, SRT_LIBRARY, type SrtCommand, type SrtSettings } from "./srt.ts";

/** The shell that starts the planned command. */
const SHELL: ProgramPath = namedProgram("/bin/sh");

/** Options of {@linkcode startPlanner}. */
interface PlannerOptions {
  /** The user's additional settings. */
  readonly config: SandboxConfig;
  /** An existing folder that only the host can see: the working directory of the sandbox. */
  readonly hostPrivate: string;
  /** The search path for programs. */
  readonly path: string;
}

/**
 * Starts a process that asks the sandbox runtime how it would start a command, unless the runtime
 * itself has to start it. If no host may be reached, the runtime's proxy, its relays and its Deno
 * would otherwise live as long as the command, unused.
 *
 * The runtime loads while the caller still prepares its question.
 */
export async function startPlanner(
  { command, env, programs }: SrtCommand,
  { config, hostPrivate, path }: PlannerOptions,
): Promise<ManagedProcess | undefined> {
  if (Deno.build.os !== "linux") return undefined;
  if ((config.network?.allowedDomains ?? []).length > 0) return undefined;
  // Without one of these programs, the runtime starts nothing and reports it.
  if (programs.bwrapPath === undefined || programs.ripgrep === undefined) return undefined;
  if (!isGranted({ name: "run", command: SHELL })) return undefined;
  const [script, temporary] = [`${hostPrivate}/plan.js`, `${hostPrivate}/proxy`];
  await Deno.writeTextFile(script, asset("sandbox/plan.js"));
  await Deno.mkdir(temporary);
  return ManagedProcess.spawn({
    command,
    args: [...DENO_ARGS, script, SRT_LIBRARY],
    cwd: hostPrivate,
    env: { PATH: path, HOME: hostPrivate, TMPDIR: temporary, ...env },
    inputGraceMs: 0,
    termGraceMs: 0,
  });
}

/** A question to a planner. */
interface Question {
  readonly settings: SrtSettings;
  readonly command: readonly string[];
  /**
   * Whether to start nothing until a line arrives on stdin. Until then, there is only one process,
   * so limits set on it apply to everything that it will start.
   */
  readonly waits: boolean;
  readonly signal: AbortSignal;
}

/**
 * Determines how to start a command in the sandbox; `undefined` if the runtime has to start it.
 * That includes a failure to plan: starting it then fails in the same way and is reported.
 */
export async function plan(
  { pipes }: ManagedProcess,
  { settings, command, waits, signal }: Question,
): Promise<{ command: ProgramPath; args: string[] } | undefined> {
  using _stage = stage("wait for the plan");
  if (await needPlaceholders(settings)) return undefined;
  const asked = async () => {
    const question = new TextEncoder().encode(JSON.stringify({ settings, command }));
    await pipes.write(question).catch(() => {}); // without a question, there is no answer
    await pipes.end();
    return joinBytes(...await Array.fromAsync(bytesOf(pipes)));
  };
  const answer = await abortable(asked(), signal);
  const text = new TextDecoder().decode(answer);
  const line: string | null = text === "" ? null : JSON.parse(text);
  if (line === null) return undefined;
  // The runtime uses its own folder for temporary files and gives the command another one.
  const start = `export TMPDIR="$CLAUDE_CODE_TMPDIR" && exec ${line}`;
  return { command: SHELL, args: ["-c", waits ? `read -r _ && ${start}` : start] };
}

/**
 * Whether a path to protect does not exist. The runtime creates an empty placeholder for it, which
 * it removes when the command has ended.
 */
async function needPlaceholders({ filesystem }: SrtSettings): Promise<boolean> {
  const found = await Promise.all(
    filesystem.denyWrite.map(async (entry) => {
      const path = typeof entry === "string" ? entry : entry.path;
      return mayRead(path) && await Deno.stat(path).then(() => true, () => false);
    }),
  );
  return found.includes(false);
}
