import { insteadOf, refuseUnknownKeys } from "../base/known_keys.ts";
import type { LoginOptions } from "../mcp/oauth/login.ts";
import type { ResourceLimits } from "../sandbox/limits.ts";
import type { SandboxOptions } from "../sandbox/sandbox.ts";
import type { NotedOptions } from "./durable.ts";
import type {
  AttachOptions,
  CodeExecutorOptions,
  DetachOptions,
  ExecuteOptions,
  InstallPackagesOptions,
  OptionalEvent,
  OwnRegisterOptions,
  ResumeOptions,
  StreamOptions,
} from "./options.ts";

/** The keys of a type. The compiler refuses a list that is not complete. */
export function keysOf<T>(keys: Readonly<Record<keyof T, true>>): readonly string[] {
  return Object.keys(keys);
}

/** The options that a session cannot change. */
const FIXED = keysOf<Omit<CodeExecutorOptions, keyof AttachOptions>>({
  durable: true,
  kernelEnv: true,
  limits: true,
  placement: true,
  sandbox: true,
  workspace: true,
});

const ATTACH = keysOf<AttachOptions>({
  approval: true,
  approvalTimeoutMs: true,
  audit: true,
  callTimeoutMs: true,
  check: true,
  connectTimeoutMs: true,
  consents: true,
  imagesDir: true,
  log: true,
  login: true,
  maxOutputBytes: true,
  packages: true,
  python: true,
  requireShellEscape: true,
  restoreWorkingDir: true,
  roots: true,
  sampling: true,
  serverIdleMs: true,
  servers: true,
  signal: true,
  startServers: true,
  startTimeoutMs: true,
  trust: true,
  variables: true,
});

/** The keys of `CodeExecutorOptions`. */
export const START: readonly string[] = [...ATTACH, ...FIXED];

/** The options whose values are options, too, and are not checked elsewhere. */
const INNER: Readonly<Record<string, readonly string[]>> = {
  durable: keysOf<NotedOptions>({ idleMs: true, maxMs: true, name: true, note: true }),
  limits: keysOf<ResourceLimits>({
    memoryBytes: true,
    processes: true,
    fileBytes: true,
    cpuSeconds: true,
  }),
  login: keysOf<LoginOptions>({ show: true, anew: true, timeoutMs: true }),
  sandbox: keysOf<SandboxOptions>({
    config: true,
    allowUnsafe: true,
    project: true,
    readOnly: true,
    devices: true,
  }),
};

const METHODS = {
  "check()": ["signal"],
  "detach()": keysOf<DetachOptions>({ code: true }),
  "execute()": keysOf<ExecuteOptions>({ timeoutMs: true, signal: true, approve: true }),
  "installPackages()": keysOf<InstallPackagesOptions>({ signal: true, onLine: true }),
  "registerServer()": keysOf<OwnRegisterOptions>({ signal: true, seen: true }),
  "resume()": keysOf<ResumeOptions>({ timeoutMs: true, events: true, signal: true }),
  "stream()": keysOf<StreamOptions>({
    timeoutMs: true,
    signal: true,
    id: true,
    events: true,
    storeHistory: true,
  }),
} as const;

const EVENTS = keysOf<Record<OptionalEvent, true>>({
  chunk: true,
  call_started: true,
  call_ended: true,
  elicitation: true,
  input: true,
});

/** Throws if `CodeExecutor.start()` does not know one of the options. */
export function checkStart(options: CodeExecutorOptions): void {
  const place = "the options of CodeExecutor.start()";
  refuseUnknownKeys(options, { known: START, place });
  checkInner(options);
}

/** Throws if `CodeExecutor.attach()` does not know or cannot change one of the options. */
export function checkAttach(options: AttachOptions): void {
  const fixed = Object.keys(options).find((key) => FIXED.includes(key));
  if (fixed !== undefined) {
    throw new TypeError(
      `CodeExecutor.attach() does not take "${fixed}": the session keeps what it was started with`,
    );
  }
  const place = "the options of CodeExecutor.attach()";
  refuseUnknownKeys(options, { known: ATTACH, place });
  checkInner(options);
}

/** Throws if an option has a key that its value does not know. */
export function checkInner(options: object): void {
  for (const [name, value] of Object.entries<unknown>({ ...options })) {
    const known = INNER[name];
    if (known === undefined || typeof value !== "object" || value === null) continue;
    refuseUnknownKeys(value, { known, place: `the option "${name}"` });
  }
}

/** Throws if a method does not know one of the options, or one of the events to deliver. */
export function checkOptions(method: keyof typeof METHODS, options: object): void {
  refuseUnknownKeys(options, { known: METHODS[method], place: `the options of ${method}` });
  const { events }: ResumeOptions = options;
  const wrong = events?.find((type) => !EVENTS.includes(type));
  if (wrong === undefined) return;
  throw new TypeError(
    `Unknown type "${wrong}" in the option "events": ${insteadOf(wrong, EVENTS)}`,
  );
}
