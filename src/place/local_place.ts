/**
 * This machine as the place of kernels, by default in its sandbox.
 *
 * @module
 */
import { type Logger, silentLogger } from "../base/log.ts";
import { LOCALE_VARIABLES } from "../base/host_variables.ts";
import { hostEnv, hostEnvs } from "../base/permission.ts";
import { abortable, allDone } from "../base/signals.ts";
import type { HeldFolder } from "../files/private_folder.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { hostPath, namedProgram } from "../process/program.ts";
import { programsOf } from "../sandbox/installation.ts";
import { effectiveLimits, limitTogether, rlimits } from "../sandbox/limits.ts";
import { prepareSandbox, requireSandbox } from "../sandbox/sandbox.ts";
import { hostPython, probeOf } from "../sandbox/wall.ts";
import type { DurableSession, Place, PlaceStart } from "./place.ts";
import { locatePython } from "./python_files.ts";
import { SessionFolder } from "./session_folder.ts";
import { startSupervisor, SupervisedLauncher, type SupervisorOptions } from "./supervisor.ts";
import { cacheVariables, workspaceCache } from "./workspace_cache.ts";

export async function localPlace(
  parts: AsyncDisposableStack,
  { options, deadline, canaryPort, session }: PlaceStart,
): Promise<Place> {
  const { sandbox = true, packages = [], log = silentLogger } = options;
  if (options.python === undefined) {
    throw new TypeError("Option python is required on this machine");
  }
  const sandboxed = sandbox !== false;
  if (!sandboxed) log.warn("No sandbox: executed code can do everything that this user can do");
  const limits = effectiveLimits(options.limits, { sandboxed });
  const folder = parts.use(await SessionFolder.create(log));
  const workspace = await realFolder(options.workspace);
  const path = hostPath();
  const cache = await workspaceCache(workspace);
  const own = sandboxed
    ? await hostPython(workspace, options.python)
    : namedProgram(options.python);
  const probe = { ...probeOf({ files: [folder.canary], port: canaryPort }), sandboxed };
  const args = ["-I", "-S", `${folder.launcher}/launcher.py`, JSON.stringify(probe)];
  // Not the kernel's, which a file of the workspace may set: Python is asked on the host.
  const libraryPath = hostEnv("LD_LIBRARY_PATH");
  const located = locatePython(options.python, { workspace, libraryPath, signal: deadline });
  const contents = located.then((python) => ({
    command: [python.isChangeable ? own : python.executable, ...args],
    readable: [...python.readable, ...packages, ...packages.flatMap(programsOf)],
    readOnly: [folder.launcher, folder.runtime, folder.stubs],
    writable: cache === undefined ? [] : [cache],
  }));
  contents.catch(() => {}); // the error is reported below
  // If Python does not work, its own error, which comes first, says more than the sandbox's.
  const [python, prepared] = await allDone([
    located,
    sandboxed
      ? prepareSandbox({ ...folder, workspace }, contents, {
        ...(sandbox === true ? {} : sandbox),
        python: own,
        limits,
        log,
        signal: deadline,
        path,
        waits: session === undefined, // otherwise the supervisor waits
      })
      : undefined,
  ]);
  deadline.throwIfAborted();
  const launch = prepared ??
    { command: namedProgram(python.executable), args, env: { LANG: "C.UTF-8" } };
  const env = { ...(python.isChangeable ? {} : python.variables), ...launch.env };
  const supervised = session === undefined ? undefined : await launchDurable(session, {
    command: [launch.command, ...launch.args],
    env,
    python: own,
    cwd: folder.session,
    hostPrivate: folder.hostPrivate,
    held: folder.held,
    log,
  });
  const process = supervised ?? ManagedProcess.spawn({
    command: launch.command,
    args: launch.args,
    cwd: folder.session,
    env,
    onStderr: (line) => log.debug(`gateway: ${line}`),
  });
  const limited = limitTogether(process.pid, limits, log);
  if (session === undefined) {
    parts.defer(async () => await (await limited)?.[Symbol.asyncDispose]());
  }
  return {
    paths: folder,
    workspace,
    python,
    path,
    environment: { ...hostVariables(), ...(cache === undefined ? {} : cacheVariables(cache)) },
    inherit: prepared?.proxyVariables ?? [],
    limits,
    rlimits: rlimits(limits),
    sandboxed,
    hasOwnTmp: sandboxed && Deno.build.os === "linux",
    exposesPrograms: false,
    process,
    supervised,
    begin: async () => {
      const group = await abortable(limited, deadline);
      supervised?.begin(group?.folders ?? []);
      // It waits for this line until its control group is set up. If it has already ended, its
      // stderr says why.
      if (prepared?.waits) {
        await process.pipes.write(new TextEncoder().encode("\n")).catch(() => {});
      }
    },
    judge: (report) => {
      if (sandboxed) requireSandbox(report);
    },
  };
}

interface DurableLaunch
  extends Pick<SupervisorOptions, "cwd" | "env" | "python" | "hostPrivate" | "reach"> {
  readonly command: readonly string[];
  /** The session's folder on this machine, which the supervisor takes over. */
  readonly held: HeldFolder;
  readonly log: Logger;
  /** The name of the launcher's place, if not this machine. */
  readonly where?: string;
}

/** Makes a supervisor start a command, and attaches to it. */
export async function launchDurable(
  session: DurableSession,
  { command, held, log, where, ...launch }: DurableLaunch,
): Promise<SupervisedLauncher> {
  const { id, secret, onSocket, ...times } = session;
  const address = { id, secret, socket: `${launch.hostPrivate}/socket`, where };
  await onSocket(address);
  await startSupervisor({
    ...times,
    ...launch,
    ...{ id, secret, socket: address.socket },
    argv: command,
    lock: held.lock,
    remove: [held.path],
  });
  held.leave();
  return await SupervisedLauncher.attach(address, log);
}

async function realFolder(path: string): Promise<string> {
  const real = await Deno.realPath(path).catch((cause: unknown) => {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new Deno.errors.NotFound(`Cannot use ${path} as workspace: it does not exist`, { cause });
  });
  if ((await Deno.stat(real)).isDirectory) return real;
  throw new Deno.errors.NotADirectory(`Cannot use ${path} as workspace: it is not a folder`);
}

/** Variables that describe the user and the machine, and are not secret. */
const OF_THE_USER: readonly string[] = [
  "TZ",
  "USER",
  "LOGNAME",
  "LANGUAGE",
  ..."GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL".split(" "),
];

/** The variables of this machine that kernels on it get. */
function hostVariables(): Record<string, string> {
  const locale = Object.entries(hostEnvs(LOCALE_VARIABLES))
    .filter(([, value]) => /utf-?8/i.test(value)); // the output of kernels has no other encoding
  return { ...Object.fromEntries(locale), ...hostEnvs(OF_THE_USER) };
}
