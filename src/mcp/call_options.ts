/** Options of {@linkcode McpConnection.listTools}. */
export interface ListToolsOptions {
  /**
   * Waits until the server has said for this long that its list changed, because some servers add
   * tools after the handshake.
   *
   * @default {0}
   */
  settleMs?: number;
  /** Gives up. */
  signal?: AbortSignal;
}

/** How far a call is, as its server reports it. */
export interface ToolProgress {
  /** How much is done. It only grows. */
  readonly progress: number;
  /** How much there is to do, where the server knows it. */
  readonly total?: number | undefined;
  /** What is being done, in words. */
  readonly message?: string | undefined;
}

/** Options of {@linkcode McpConnection.callTool}. */
export interface CallToolOptions {
  /** Cancels the call, at the server too. */
  signal?: AbortSignal | undefined;
  /** The longest time that the call may take, in milliseconds; none by default. */
  timeoutMs?: number | undefined;
  /** Told of the progress that the server reports. */
  onProgress?: ((progress: ToolProgress) => void) | undefined;
}
