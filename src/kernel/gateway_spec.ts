import { type EffectiveLimits, rlimits } from "../sandbox/limits.ts";
import type { PreparedSandbox } from "../sandbox/sandbox.ts";
import type { KernelGatewayOptions } from "./gateway_options.ts";
import type { PythonFiles } from "./python_files.ts";
import { KERNEL_FOLDERS, type SessionFolder } from "./session_folder.ts";

/** What a gateway is made of. */
export interface GatewayParts {
  readonly options: KernelGatewayOptions;
  readonly python: PythonFiles;
  readonly folder: SessionFolder;
  readonly workspace: string;
  readonly prepared: PreparedSandbox | undefined;
  readonly limits: EffectiveLimits;
  readonly token: string;
  readonly path: string;
  /** Whether kernels can be kept from tracing and signalling each other. */
  readonly kernelsApart: boolean;
}

/** What the launcher is told to start. Only its stdin carries the token. */
export function gatewaySpec(parts: GatewayParts): unknown {
  const { options, python, folder, workspace, prepared, token, path } = parts;
  const { kernelEnv = {}, kernelToken, packages = [] } = options;
  const limits = rlimits(parts.limits);
  const bin = python.executable.slice(0, python.executable.lastIndexOf("/"));
  const env = { PATH: `${bin}:${path}`, LANG: "C.UTF-8", JUPYTER_NO_CONFIG: "1" };
  const pythonPath = [folder.runtime, workspace, ...packages];
  if (kernelEnv.PYTHONPATH !== undefined) pythonPath.push(kernelEnv.PYTHONPATH);
  return {
    argv: [python.executable, "-I", `${folder.launcher}/gateway.py`],
    cwd: workspace,
    env: { ...env, ...folder.environment() },
    door: options.kernelDoor !== undefined,
    inherit: prepared?.proxyVariables ?? [],
    limits: limits.all,
    input: {
      token,
      kernel_env: {
        ...env,
        ...(kernelToken === undefined ? {} : { IPYBOX_TOOL_TOKEN: kernelToken }),
        ...kernelEnv,
        PYTHONPATH: pythonPath.join(":"),
      },
      kernel_script: `${folder.launcher}/kernel.py`,
      kernel_limits: limits.kernel,
      kernels_apart: parts.kernelsApart,
      kernels_dir: folder.kernels,
      kernel_folders: KERNEL_FOLDERS,
      resource_dir: folder.launcher,
    },
  };
}
