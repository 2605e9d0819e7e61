import { resolve } from "node:path";
import { guardsShell } from "../approval/policy.ts";
import { silentLogger } from "../base/log.ts";
import { ToolServer } from "../calls/tool_server.ts";
import { CodeChecker } from "../check/checker.ts";
import type { ShellGuard } from "../kernel/bootstrap.ts";
import { KernelHost } from "../kernel/host.ts";
import { findPython, type PythonEnvironment } from "../python/environment.ts";
import { PackageFolder } from "../python/packages.ts";
import { makeOwnFolders } from "../sandbox/protect.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import { realWorkspace, refuseNested } from "../sandbox/workspace.ts";
import type { CodeExecutorOptions } from "./options.ts";

/** What an executor consists of, running. */
export interface RunningParts {
  /** The workspace, as an absolute path without symbolic links. */
  readonly workspace: string;
  readonly kernel: KernelHost;
  readonly tools: ToolServer;
  /** The workspace's packages, where there may be any. */
  readonly packages: PackageFolder | undefined;
  /** Checks code before it runs, unless that is off. */
  readonly checker: CodeChecker | undefined;
}

/** Starts the tool server, and then the kernel that it serves. */
export async function startParts(
  parts: AsyncDisposableStack,
  options: CodeExecutorOptions,
): Promise<RunningParts> {
  const shell = shellGuard(options);
  const workspace = await realWorkspace(options.workspace ?? ".");
  if (!options.nestedWorkspace) await refuseNested(workspace);
  await makeOwnFolders(workspace);
  const python = await findPython({ ...options, workspace });
  const tools = parts.use(await ToolServer.start({ ...options, workspace, kernelPort: false }));
  const { packages, importable } = await openPackages(options, workspace, python);
  const kernel = parts.use(
    await KernelHost.start({
      ...options,
      gateway: {
        ...options,
        python: python.executable,
        workspace,
        kernelDoor: (stream) => tools.serveKernel(stream),
        sandbox: withReadOnly(options.sandbox, tools.runner.settingsFiles),
        packages: importable,
      },
      imagesDir: resolve(workspace, options.imagesDir ?? "images"),
      workingDir: workspace,
      toolToken: () => tools.renewKernelToken(),
      shell,
    }),
  );
  const { check = "block", log = silentLogger } = options;
  const mcptools = resolve(workspace, "mcptools");
  const checker = check === "off"
    ? undefined
    : parts.use(new CodeChecker({ kernel, mcptools, log }));
  if (tools.runner.registry.names.length > 0) checker?.warm();
  return { workspace, kernel, tools, packages, checker };
}

/** The packages that code can import, and the folder that further ones are installed into. */
async function openPackages(
  { packages = true, sandbox, log }: CodeExecutorOptions,
  workspace: string,
  python: PythonEnvironment,
): Promise<{ packages: PackageFolder | undefined; importable: readonly string[] }> {
  if (packages === false) return { packages: undefined, importable: [] };
  const others = packages === true ? [] : [await PackageFolder.find(packages, python)];
  const shared = others.filter((path) => path !== undefined);
  if (PackageFolder.isPermitted()) {
    const own = await PackageFolder.open(workspace, python, { sandbox, shared, log });
    return { packages: own, importable: [own.path, ...shared] };
  }
  const found = await PackageFolder.find(workspace, python);
  return { packages: undefined, importable: found === undefined ? shared : [found, ...shared] };
}

/** What code in the kernel must ask for before it runs commands. */
function shellGuard({ approval, requireShellEscape = false }: CodeExecutorOptions): ShellGuard {
  if (guardsShell(approval)) return requireShellEscape ? "escape" : "approval";
  if (!requireShellEscape) return "none";
  throw new TypeError(
    "Cannot require shell escapes if they need no approval: " +
      'set approval.shell to "ask" or "deny", or remove requireShellEscape',
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
