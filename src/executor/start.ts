import { resolve } from "node:path";
import { guardsShell } from "../approval/policy.ts";
import {
  ConfigError,
  EnvironmentNotReadyError,
  GatewayStartError,
  KernelStartError,
} from "../base/errors.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { CallJournal } from "../calls/journal.ts";
import { type OwnServerOptions, ToolServer } from "../calls/tool_server.ts";
import { CodeChecker } from "../check/checker.ts";
import type { ShellGuard } from "../kernel/bootstrap.ts";
import type { Run } from "../kernel/execution.ts";
import { KernelGateway } from "../kernel/gateway.ts";
import { KernelHost, type KernelHostOptions } from "../kernel/host.ts";
import type { KernelReference } from "../kernel/kernel.ts";
import type { KernelGatewayOptions } from "../place/place.ts";
import { bindsWorkspace, type Placement } from "../place/placement.ts";
import { SupervisedLauncher } from "../place/supervisor.ts";
import { findPython, type PythonEnvironment, retryPython } from "../python/environment.ts";
import { callsOfOthers } from "./other_sessions.ts";
import { PackageFolder } from "../python/packages.ts";
import { readSandboxConfig } from "../sandbox/config.ts";
import {
  beginWriting,
  isOwnProgram,
  makeOwnFolders,
  realWorkspace,
  refuseUnfit,
} from "../sandbox/workspace.ts";
import { CodeInputs, type RunEvent } from "./code_inputs.ts";
import {
  claimName,
  createSession,
  folderOf,
  keptState,
  type LeftTime,
  leftTime,
  removeEnded,
  type SessionRecord,
  SessionState,
} from "./durable.ts";
import type { CodeExecutorOptions, OwnExecutorOptions } from "./options.ts";

export interface RunningParts {
  /** The workspace, as an absolute path without symbolic links. */
  readonly workspace: string;
  readonly kernel: KernelHost;
  readonly tools: ToolServer;
  /** The workspace's packages, if it can have any. */
  readonly packages: PackageFolder | undefined;
  /** Checks code before it runs, unless that is off. */
  readonly checker: CodeChecker | undefined;
  /** The parts of the session if it is durable. */
  readonly durable: DurableParts | undefined;
}

/** An executor's part of a durable session. */
export interface DurableParts {
  readonly id: string;
  readonly gateway: KernelGateway;
  readonly state: SessionState;
  /** Whether the session continues when these parts are disposed. */
  readonly detached: { value: boolean };
  readonly journal: CallJournal;
  /** The last execution of the previous host. */
  readonly found?: FoundRun | undefined;
  /** Called when somebody is ready to decide on the calls of the code. */
  readonly follow?: () => void;
}

/** An execution that another host started. */
interface FoundRun {
  readonly run: Run<RunEvent>;
  readonly code: string;
  /** Whether a host has already seen its end. */
  readonly ended: boolean;
  readonly inputs: CodeInputs;
  /** The rest of its time limit, if any. */
  readonly left: LeftTime | undefined;
}

/** Starts the tool server, then the kernel. */
export async function startParts(
  parts: AsyncDisposableStack,
  given: OwnExecutorOptions,
): Promise<RunningParts> {
  const shell = shellGuard(given);
  const workspace = await realWorkspace(given.workspace ?? ".");
  const { durable, placement } = given;
  const sandboxed = given.sandbox !== false && placement === undefined;
  if (sandboxed) await refuseUnfit(workspace);
  await makeOwnFolders(workspace);
  if (placement && mayWriteHere(placement)) await beginWriting(workspace); // as the sandbox does
  const python = placement === undefined ? await findPython({ ...given, workspace }) : undefined;
  await using _name = durable?.name === undefined
    ? undefined
    : await claimName(durable.name, workspace);
  const session = durable && await createSession(workspace, {
    ...durable,
    placement,
    python: placement && await ownPython(given, workspace),
  });
  const detached = { value: false };
  const journal = session &&
    await openJournal(parts, { id: session.id, detached, log: given.log });
  const { tools, kernelEnv } = await startTools(parts, given, {
    workspace,
    id: session?.id,
    journal,
  });
  const settled = { ...given, kernelEnv };
  const options = sandboxed ? await withConfig(settled, workspace) : settled;
  const { packages, importable } = python === undefined
    ? { packages: undefined, importable: [] }
    : await openPackages(options, workspace, python);
  const gateway: KernelGatewayOptions = {
    ...options,
    python: python?.executable ?? options.python,
    workspace,
    kernelDoor: (stream) => tools.serveKernel(stream),
    packages: importable,
  };
  const explained = <T>(start: Promise<T>) => orWhatPythonLacks(start, python, options);
  const durableGateway = session === undefined
    ? undefined
    : parts.use(await explained(KernelGateway.startDurable(gateway, session)));
  const state = durableGateway && new SessionState(durableGateway, { shell });
  durableGateway?.exited.then(() => journal?.leave()); // the next host records calls
  const kernel = parts.use(
    await explained(KernelHost.start(kernelOptions(options, {
      ...{ workspace, tools, packages, state, shell },
      isRemote: placement !== undefined,
      gateway: durableGateway ?? gateway,
    }))),
  );
  const durableParts = session && durableGateway && state && journal &&
    { id: session.id, gateway: durableGateway, state, detached, journal };
  const checker = checkerOf(parts, options, { kernel, workspace });
  if (tools.runner.registry.names.length > 0) checker?.warm();
  return { workspace, kernel, tools, packages, checker, durable: durableParts };
}

/** Whether code in a placement may write to the workspace on this machine. */
function mayWriteHere(placement: Placement): boolean {
  return bindsWorkspace(placement) || placement.type === "command";
}

/** Names the packages that Python lacks, if that may be why a start has failed. */
async function orWhatPythonLacks<T>(
  start: Promise<T>,
  python: PythonEnvironment | undefined,
  options: CodeExecutorOptions,
): Promise<T> {
  try {
    return await start;
  } catch (error) {
    const mayLack = error instanceof GatewayStartError || error instanceof KernelStartError;
    if (python !== undefined && mayLack) await retryPython(python, options);
    throw error;
  }
}

/** Attaches to the kernel of a durable session, and starts a tool server for it. */
export async function attachParts(
  parts: AsyncDisposableStack,
  options: OwnExecutorOptions,
  record: SessionRecord,
): Promise<RunningParts> {
  const { workspace, id, where } = record;
  const { log = silentLogger } = options;
  const packages = where === undefined
    ? (await openPackages(
      { ...options, sandbox: undefined },
      workspace,
      await findPython({ ...options, workspace }),
    )).packages
    : undefined;
  const detached = { value: false };
  const launcher = await SupervisedLauncher.attach(record, log);
  try {
    if (launcher.status.tookOver) {
      log.warn(`Another program was attached to session ${id}; it has been detached`);
    }
    const kept = keptState(record, launcher.status);
    const { shell } = kept;
    if (shellGuard(options) !== shell) throw otherShell(id, shell);
    const { toolToken: kernelToken } = kept;
    const journal = await openJournal(parts, { id, detached, log });
    const more = { workspace, id, journal, kernelToken };
    const { tools } = await startTools(parts, options, more);
    // Calls wait until somebody follows their execution and can decide on them.
    const { promise: isFollowed, resolve: follow } = Promise.withResolvers<void>();
    const gateway = parts.use(
      await KernelGateway.attach(
        {
          ...options,
          kernelDoor: async (stream) => {
            await Promise.race([isFollowed, stream.closed]);
            await tools.serveKernel(stream);
          },
        },
        launcher,
        kept.gateway,
      ),
    );
    gateway.exited.then(() => journal.leave()); // the next host records calls
    const state = new SessionState(gateway, kept);
    let found: FoundRun | undefined;
    const { execution } = kept;
    const kernel = parts.use(
      await KernelHost.start({
        ...kernelOptions(options, {
          ...{ workspace, tools, packages, state, shell, gateway },
          isRemote: where !== undefined,
        }),
        found: {
          kernel: kept.kernel,
          execution: execution && {
            id: execution.id,
            find: (host, kernel) => {
              const { id, code, ended } = execution;
              const inputs = new CodeInputs(code, tools.runner.trail);
              const run: Run<RunEvent> = host.prepare(code, {
                id,
                chunks: true,
                onInput: (request) => inputs.take(request, run),
              });
              found = { run, code, ended, inputs, left: leftTime(execution, launcher.status) };
              return run.find(kernel);
            },
          },
        },
      }),
    );
    const checker = checkerOf(parts, options, { kernel, workspace });
    const durable = { id, gateway, state, detached, journal, found, follow };
    return { workspace, kernel, tools, packages, checker, durable };
  } catch (error) {
    detached.value = true; // keep the session for another attempt
    await launcher.leave();
    throw error;
  }
}

/** Opens the journal of a session's calls. If the session ends, its folder is removed. */
async function openJournal(
  parts: AsyncDisposableStack,
  { id, detached, log = silentLogger }: {
    readonly id: string;
    readonly detached: { readonly value: boolean };
    readonly log: Logger | undefined;
  },
): Promise<CallJournal> {
  parts.defer(async () => {
    if (!detached.value) await removeEnded(id);
  });
  return parts.use(await CallJournal.open(folderOf(id), log));
}

function kernelOptions(
  options: OwnExecutorOptions,
  { workspace, isRemote, tools, packages, gateway, state, shell }: {
    readonly workspace: string;
    readonly isRemote: boolean;
    readonly tools: ToolServer;
    readonly packages: PackageFolder | undefined;
    readonly gateway: KernelGateway | KernelGatewayOptions;
    readonly state: SessionState | undefined;
    readonly shell: ShellGuard;
  },
): KernelHostOptions {
  const { imagesDir = "images", spareKernel, installer = "method" } = options;
  const isDurable = gateway instanceof KernelGateway;
  return {
    ...options,
    gateway,
    endGateway: isDurable ? () => gateway[Symbol.asyncDispose]() : undefined,
    shell,
    installer: packages && installer,
    imagesDir: resolve(workspace, imagesDir),
    workingDir: isRemote ? undefined : workspace, // a placement has its own workspace
    // Another host would not know about a spare kernel.
    spareKernel: isDurable ? false : spareKernel,
    toolToken: () => {
      const toolToken = tools.renewKernelToken();
      state?.keep({ toolToken });
      return toolToken;
    },
    onKernel: state && ((kernel: KernelReference) => state.keep({ kernel })),
  };
}

/** Starts a tool server. Its pages also show the calls that wait in other sessions. */
async function startTools(
  parts: AsyncDisposableStack,
  options: OwnExecutorOptions,
  { id, ...more }: OwnServerOptions & { readonly workspace: string; readonly id?: string },
): Promise<Pick<CodeExecutorOptions, "kernelEnv"> & { readonly tools: ToolServer }> {
  const { log = silentLogger, beforeKernel } = options;
  const elsewhere = () => callsOfOthers(more.workspace, { id, log });
  const own: OwnServerOptions = { ...options, ...more, elsewhere, kernelPort: false };
  const tools = parts.use(await ToolServer.start(own));
  const kernelEnv = beforeKernel ? await beforeKernel(tools.page) : options.kernelEnv;
  const { pool, registry } = tools.runner;
  if (options.startServers === "with-kernel") pool.startAhead(registry.names);
  return { tools, kernelEnv };
}

/** The Python that runs a supervisor; `undefined` if none has been set up. */
async function ownPython(
  { log }: CodeExecutorOptions,
  workspace: string,
): Promise<string | undefined> {
  try {
    const { executable } = await findPython({ workspace, log });
    return await isOwnProgram(executable, workspace) ? executable : undefined;
  } catch (error) {
    if (error instanceof EnvironmentNotReadyError) return undefined;
    throw error;
  }
}

function checkerOf(
  parts: AsyncDisposableStack,
  { check = "block", log = silentLogger }: CodeExecutorOptions,
  { kernel, workspace }: { readonly kernel: KernelHost; readonly workspace: string },
): CodeChecker | undefined {
  if (check === "off") return undefined;
  return parts.use(new CodeChecker({ kernel, mcptools: resolve(workspace, "mcptools"), log }));
}

function otherShell(id: string, shell: ShellGuard): ConfigError {
  const how = {
    none: "without approval of shell commands",
    approval: "with approval of shell commands",
    escape: "with approval of shell commands and requireShellEscape",
  }[shell];
  return new ConfigError(
    `Cannot attach to session ${id}: it was started ${how}, which cannot change while it runs. ` +
      "Attach with the same settings",
  );
}

/** The package folders that code can import from, and the one that packages are installed into. */
async function openPackages(
  { packages = true, parentWorkspace, sandbox, log }: OwnExecutorOptions,
  workspace: string,
  python: PythonEnvironment,
): Promise<{ packages: PackageFolder | undefined; importable: readonly string[] }> {
  // Code can change a Python in the workspace, which also has packages of its own.
  const isOwn = await isOwnProgram(python.executable, workspace);
  if (!packages || !isOwn) return { packages: undefined, importable: [] };
  const parent = parentWorkspace && await PackageFolder.find(parentWorkspace, python);
  const common = await PackageFolder.common(python);
  const shared = parent ? [parent, ...common] : common;
  if (PackageFolder.isPermitted()) {
    const own = await PackageFolder.open(workspace, python, { sandbox, shared, log });
    return { packages: own, importable: [own.path, ...shared] };
  }
  const found = await PackageFolder.find(workspace, python);
  return { packages: undefined, importable: found === undefined ? shared : [found, ...shared] };
}

/** How the kernel guards shell commands and processes. */
function shellGuard({ approval, requireShellEscape = false }: CodeExecutorOptions): ShellGuard {
  if (guardsShell(approval)) return requireShellEscape ? "escape" : "approval";
  if (!requireShellEscape) return "none";
  throw new TypeError(
    "Cannot require shell escapes if they need no approval: " +
      'set approval.shell to "ask" or "deny", or remove requireShellEscape',
  );
}

/** Reads the settings of the sandbox, for the kernel and for installers. */
async function withConfig(
  options: OwnExecutorOptions,
  workspace: string,
): Promise<OwnExecutorOptions> {
  const { sandbox, trust } = options;
  if (typeof sandbox !== "object") return options;
  const config = await readSandboxConfig(sandbox.config, { ...sandbox, workspace, trust });
  return { ...options, sandbox: { ...sandbox, config } };
}
