import type { Logger } from "../log.ts";
import type { ShellGuard } from "./bootstrap.ts";
import type { GatewayAddress } from "./gateway_connection.ts";

/** Options of `KernelClient.start()`. */
export interface KernelClientOptions {
  /** The kernel gateway: a running `KernelGateway` is one. */
  readonly gateway: GatewayAddress;
  /**
   * The folder for image files, created with the first image.
   *
   * @default {"images"}
   */
  readonly imagesDir?: string | undefined;
  /**
   * The folder for the whole text of executions whose text is too long, created with the first.
   *
   * @default the folder for images
   */
  readonly spillDir?: string | undefined;
  /**
   * Where code starts; relative to the gateway's working directory, which is also the default.
   */
  readonly workingDir?: string | undefined;
  /**
   * Whether each execution starts in that directory again. One that left it says so in its text.
   *
   * @default {false}
   */
  readonly restoreWorkingDir?: boolean | undefined;
  /**
   * What holds for shell commands. With `"approval"`, `!cmd`, `%%bash` and the like ask the tool
   * server that the gateway's kernels know; with `"escape"`, all other ways to start a process also
   * raise an exception.
   *
   * @default {"none"}
   */
  readonly shell?: ShellGuard | undefined;
  /**
   * Makes the token that code shows to the tool server, from `IPYBOX_TOOL_TOKEN`; the one before ends
   * with that. It is called as soon as a kernel is given up, before its processes have ended.
   *
   * @default {undefined} what the gateway gives to all its kernels
   */
  readonly toolToken?: (() => string) | undefined;
  /**
   * Ends the gateway. It is asked to where a kernel that is given up is not ended by its gateway, or
   * where no kernel can be started in its place.
   *
   * @default {undefined} such a gateway is tried again
   */
  readonly endGateway?: (() => Promise<void>) | undefined;
  /**
   * How much text of one execution is kept in memory, in bytes: half of it from the start and half
   * from the end. The whole of a longer one goes to a file, which the text names.
   *
   * @default {1048576}
   */
  readonly maxOutputBytes?: number | undefined;
  /**
   * How long interrupted code may take to end before its kernel is replaced. One that says that the
   * code has ended gets ten seconds more to be ready for other code.
   *
   * @default {2000}
   */
  readonly interruptGraceMs?: number | undefined;
  /**
   * How long a kernel may take to start.
   *
   * @default {60000}
   */
  readonly startTimeoutMs?: number | undefined;
  /**
   * Whether a second kernel is kept ready, so that `KernelClient.reset()` takes
   * milliseconds. It costs the memory of one idle kernel, some 45 MB, and is started half a second
   * after the one in use.
   *
   * @default {true}
   */
  readonly spareKernel?: boolean | undefined;
  /** Gives up the start. */
  readonly signal?: AbortSignal | undefined;
  /** Told of what goes wrong where no caller is. */
  readonly log?: Logger | undefined;
}
