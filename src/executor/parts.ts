import { resolve } from "node:path";
import { guardsShell } from "../approval/policy.ts";
import type { ShellGuard } from "../kernel/bootstrap.ts";
import { stderrLogger } from "../log.ts";
import { findPython } from "../python/environment.ts";
import { refuseNested } from "../sandbox/nested_workspace.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { ToolServer } from "../tool_server/tool_server.ts";
import { KernelSession } from "./kernel_session.ts";
import type { CodeExecutorOptions } from "./options.ts";

/** What an executor consists of, running. */
export interface RunningParts {
  /** The workspace, as an absolute path without symbolic links. */
  readonly workspace: string;
  readonly kernel: KernelSession;
  readonly tools: ToolServer;
}

/**
 * Starts the tool server, and then the kernel that it serves.
 *
 * @param parts Where what was started is left to be ended, also when a later step fails.
 * @param options Those of the executor.
 * @returns What runs.
 */
export async function startParts(
  parts: AsyncDisposableStack,
  options: CodeExecutorOptions,
): Promise<RunningParts> {
  const { servers, approval, approvalTimeoutMs, connectTimeoutMs, startTimeoutMs } = options;
  const shell = shellGuard(options);
  const { kernelEnv, sandbox, signal, imagesDir = "images", log = stderrLogger() } = options;
  const { nestedWorkspace = false } = options;
  const workspace = await Deno.realPath(options.workspace ?? Deno.cwd());
  if (!nestedWorkspace) await refuseNested(workspace);
  const python = await findPython({ python: options.python, workspace, log });
  const tools = parts.use(
    await ToolServer.start({
      workspace,
      servers,
      approval,
      approvalTimeoutMs,
      audit: options.audit,
      consents: options.consents,
      connectTimeoutMs,
      callTimeoutMs: options.callTimeoutMs,
      maxConcurrentCalls: options.maxConcurrentCalls,
      serverIdleMs: options.serverIdleMs,
      variables: options.variables,
      login: options.login,
      sampling: options.sampling,
      roots: options.roots,
      kernelPort: false,
      log,
    }),
  );
  const { packagesDir, restoreWorkingDir, maxOutputBytes, spareKernel } = options;
  const kernel = parts.use(
    await KernelSession.start({
      gateway: {
        python: python.executable,
        workspace,
        kernelDoor: (stream) => tools.serveKernel(stream),
        kernelToken: tools.kernelToken,
        sandbox: withReadOnly(sandbox, tools.runner.settingsFiles),
        nestedWorkspace,
        limits: options.limits,
        kernelEnv,
        packagesDir,
        startTimeoutMs,
        signal,
        log,
      },
      kernel: {
        imagesDir: resolve(workspace, imagesDir),
        workingDir: workspace,
        restoreWorkingDir,
        shell,
        maxOutputBytes,
        spareKernel,
        startTimeoutMs,
        signal,
        log,
      },
    }),
  );
  return { workspace, kernel, tools };
}

/** What code in the kernel must ask for before it runs commands. */
function shellGuard({ approval, requireShellEscape = false }: CodeExecutorOptions): ShellGuard {
  if (guardsShell(approval)) return requireShellEscape ? "escape" : "approval";
  if (!requireShellEscape) return "none";
  throw new TypeError(
    "Cannot require shell escapes where they are not approved: " +
      'set approval.shell to "ask" or "deny", or leave out requireShellEscape',
  );
}

/** Keeps code from changing the settings that decide on servers' sandboxes. */
function withReadOnly(
  sandbox: CodeExecutorOptions["sandbox"] = true,
  files: readonly string[],
): boolean | SandboxOptions {
  if (sandbox === false) return false;
  const options = sandbox === true ? {} : sandbox;
  return { ...options, readOnly: [...options.readOnly ?? [], ...files] };
}
