import { asset } from "../assets/mod.ts";
import { joinBytes } from "../base/bytes.ts";
import { isGranted, mayRead } from "../base/permission.ts";
import { abortable } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import { bytesOf } from "../base/streams.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { namedProgram, type ProgramPath } from "../process/program.ts";
import type { SandboxConfig } from "./config.ts";
import { proxyFolder, type SandboxSettings, textOf } from "./settings.ts";
import type { SrtCommand } from "./srt.ts";

/** What starts what is planned. */
const SHELL: ProgramPath = namedProgram("/bin/sh");

/** What a {@linkcode Planner} is started with. */
export interface PlannerOptions {
  /** What the user added to the settings. */
  readonly config: SandboxConfig;
  /** What only the host sees. It exists. */
  readonly hostPrivate: string;
  /** The working directory of the sandbox. */
  readonly cwd: string;
  /** Where programs are looked for. */
  readonly path: string;
}

/** Options of {@linkcode Planner.plan}. */
export interface PlanOptions {
  /**
   * Whether nothing is started before a line comes on stdin: until then it is one process, which can be
   * given limits with all that it will start.
   *
   * @default {false}
   */
  readonly waits?: boolean;
  /** Cancels it. */
  readonly signal?: AbortSignal;
}

/**
 * Has the sandbox runtime say how it would start a command, instead of starting it: where no host may
 * be reached, its proxy, its relays, and the Deno it runs in, would live as long as the command and do
 * nothing.
 *
 * It loads while the caller still finds out what to ask. Disposing it ends it.
 */
export class Planner implements AsyncDisposable {
  readonly #process: ManagedProcess;

  private constructor(process: ManagedProcess) {
    this.#process = process;
  }

  /** Starts one, unless the runtime has to be started itself. */
  static async start(
    { command, env, library, programs }: SrtCommand,
    { config, hostPrivate, cwd, path }: PlannerOptions,
  ): Promise<Planner | undefined> {
    if (Deno.build.os !== "linux" || library === undefined) return undefined;
    if ((config.network?.allowedDomains ?? []).length > 0) return undefined;
    // Without one of these the runtime starts nothing, and says so.
    if (programs.bwrapPath === undefined || programs.ripgrep === undefined) return undefined;
    if (!isGranted({ name: "run", command: SHELL })) return undefined;
    const [script, temporary] = [`${hostPrivate}/plan.js`, proxyFolder(hostPrivate)];
    await Deno.writeTextFile(script, asset("wall/plan.js"));
    await Deno.mkdir(temporary);
    const flags = ["--quiet", "--no-config", "--cached-only", "-A"];
    const process = ManagedProcess.spawn({
      command,
      args: ["run", ...flags, script, library],
      cwd,
      env: { PATH: path, HOME: hostPrivate, TMPDIR: temporary, ...env },
      inputGraceMs: 0,
      termGraceMs: 0,
    });
    return new Planner(process);
  }

  /**
   * Says how a command is started in the sandbox, or that the runtime has to start it. The runtime does
   * as well where it fails to say: it then fails in the same way, where that is reported.
   */
  async plan(
    settings: SandboxSettings,
    command: readonly string[],
    { waits = false, signal }: PlanOptions,
  ): Promise<{ command: ProgramPath; args: string[] } | undefined> {
    using _stage = stage("wait for the plan");
    if (await needPlaceholders(settings)) return undefined;
    const answer = this.#ask(JSON.stringify({ settings, command }));
    const line = await (signal === undefined ? answer : abortable(answer, signal));
    if (line === null) return undefined;
    // The runtime has a folder for temporary files of its own, and gives the command another one.
    const start = `export TMPDIR="$CLAUDE_CODE_TMPDIR" && exec ${line}`;
    return { command: SHELL, args: ["-c", waits ? `read -r _ && ${start}` : start] };
  }

  async #ask(question: string): Promise<string | null> {
    const { pipes } = this.#process;
    await pipes.write(new TextEncoder().encode(question)).catch(() => {}); // then there is no answer
    await pipes.end();
    const answer = joinBytes(...await Array.fromAsync(bytesOf(pipes)));
    return answer.length === 0 ? null : JSON.parse(new TextDecoder().decode(answer));
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process.stop();
  }
}

/**
 * Whether something that is not there is to be kept from being made. The runtime makes something empty
 * in its place, which it takes away when the command has ended.
 */
async function needPlaceholders({ filesystem }: SandboxSettings): Promise<boolean> {
  const found = await Promise.all(
    filesystem.denyWrite.map(textOf).map(async (path) =>
      mayRead(path) && await Deno.stat(path).then(() => true, () => false)
    ),
  );
  return found.includes(false);
}
