import { isDeepStrictEqual } from "node:util";
import { ConfigError } from "../base/errors.ts";
import { SessionGoneError, statusOf } from "../kernel/supervisor.ts";
import { CodeExecutor } from "./code_executor.ts";
import { endDurable, findSession, keptState, NameTakenError } from "./durable.ts";
import type { CodeExecutorOptions } from "./options.ts";

/** Options of {@linkcode startNamed}. */
export interface NamedSessionOptions extends CodeExecutorOptions {
  readonly workspace: string;
  /** Whether a session that was lost is forgotten for a new one. */
  readonly replacesLost?: boolean;
}

/** A durable session that has a name. */
export interface NamedSession {
  readonly executor: CodeExecutor;
  /** What there was of this name: nothing, the session itself, or one that was lost. */
  readonly before: "nothing" | "itself" | "lost";
}

/** Continues the session of a workspace that has a name, or begins it. */
export async function startNamed(
  name: string,
  { replacesLost = false, ...options }: NamedSessionOptions,
): Promise<NamedSession> {
  const start = () => CodeExecutor.start({ ...options, durable: { ...options.durable, name } });
  try {
    return { executor: await start(), before: "nothing" };
  } catch (error) {
    if (!(error instanceof NameTakenError)) throw error;
    try {
      await requireSame(error.id, options);
      return { executor: await CodeExecutor.attach(error.id, options), before: "itself" };
    } catch (lost) {
      if (!replacesLost || !(lost instanceof SessionGoneError)) throw lost;
      await endDurable(error.id);
      return { executor: await start(), before: "lost" };
    }
  }
}

/** Refuses a session whose code runs elsewhere than its user expects, or without the sandbox. */
async function requireSame(id: string, { placement, sandbox }: NamedSessionOptions): Promise<void> {
  const record = await findSession(id);
  const { where = "on this machine" } = record;
  if (placement !== undefined && !isDeepStrictEqual(plain(placement), record.placement)) {
    throw new ConfigError(
      `Session ${id} runs elsewhere (${where}): continue it without a placement, or end it with ` +
        `\`ipybox sessions end ${id}\``,
    );
  }
  if (sandbox === false || keptState(record, await statusOf(record)).gateway.sandboxed) return;
  throw new ConfigError(
    `Session ${id} was started with --no-sandbox: continue it with that option, too, or end it with ` +
      `\`ipybox sessions end ${id}\``,
  );
}

/** A value as JSON keeps it. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}
