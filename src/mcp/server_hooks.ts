/** A message that a server logs for its client. */
export interface ServerLogMessage {
  /** How grave it is, in the words of syslog, such as `"info"` or `"error"`. */
  readonly level: string;
  /** The part of the server that says it. */
  readonly logger?: string | undefined;
  /** What it says: text or any other JSON value. */
  readonly data: unknown;
}

/** What a server may tell its client without being asked. None of it is to be trusted. */
export interface ServerHooks {
  /** Told of what the server logs. Without it, the server is not asked to log. */
  readonly onLog?: ((message: ServerLogMessage) => void) | undefined;
  /** Told that the server's list of tools is no longer what it was. */
  readonly onToolsChanged?: (() => void) | undefined;
}
