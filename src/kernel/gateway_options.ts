import type { Logger } from "../log.ts";
import type { ByteStream } from "../net/byte_stream.ts";
import type { ResourceLimits } from "../sandbox/limits.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";

/** Options of `KernelGateway.start()`. */
export interface KernelGatewayOptions {
  /** The path of a Python that has `jupyter_kernel_gateway` and `ipykernel`. */
  python: string;
  /** The working directory of kernels. It exists. */
  workspace: string;
  /**
   * Whether kernels run in the sandbox, and how it differs from its defaults.
   *
   * @default {true}
   */
  sandbox?: boolean | SandboxOptions | undefined;
  /**
   * Accepts other workspaces in this one, whose files its code could change.
   *
   * @default {false}
   */
  nestedWorkspace?: boolean | undefined;
  /**
   * What one process of the executed code may take, also without the sandbox; `false` for no limits.
   *
   * @default 8 GiB of memory, 1024 processes in the sandbox, files of 4 GiB, no limit of CPU time
   */
  limits?: ResourceLimits | false | undefined;
  /**
   * Folders with further Python packages for kernels, which can only read them. They exist.
   *
   * @default {[]}
   */
  packages?: readonly string[] | undefined;
  /** Further environment variables of kernels. */
  kernelEnv?: Readonly<Record<string, string>> | undefined;
  /**
   * The one address on the host that code in kernels can reach, at `IPYBOX_TOOL_URL`; or what takes
   * their connections without there being an address.
   */
  kernelDoor?: KernelDoorTarget | undefined;
  /**
   * What code in all its kernels shows there, from `IPYBOX_TOOL_TOKEN`. One for each kernel is what
   * `KernelClientOptions.toolToken` gives.
   */
  kernelToken?: string | undefined;
  /**
   * How long the start may take.
   *
   * @default {60000}
   */
  startTimeoutMs?: number | undefined;
  /** Ends the start. */
  signal?: AbortSignal | undefined;
  /** Where the gateway says what is weaker than it could be. */
  log?: Logger | undefined;
}

/** Where connections of code in kernels lead: to an address of the host, or to a function. */
export type KernelDoorTarget =
  | { readonly hostname: string; readonly port: number }
  | ((stream: ByteStream) => Promise<void>);
