import { ConfigError } from "../base/errors.ts";
import { SessionGoneError, statusOf } from "../kernel/supervisor.ts";
import { CodeExecutor } from "./code_executor.ts";
import { endDurable, findSession, keptState, NameTakenError } from "./durable.ts";
import type { CodeExecutorOptions } from "./options.ts";

/** Options of {@linkcode startNamed}. */
interface NamedSessionOptions extends CodeExecutorOptions {
  readonly workspace: string;
  /** Whether a session that was lost is forgotten for a new one. */
  readonly replacesLost?: boolean;
}

/** A durable session that has a name. */
interface NamedSession {
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
      if (options.sandbox !== false) await requireSandbox(error.id);
      return { executor: await CodeExecutor.attach(error.id, options), before: "itself" };
    } catch (lost) {
      if (!replacesLost || !(lost instanceof SessionGoneError)) throw lost;
      await endDurable(error.id);
      return { executor: await start(), before: "lost" };
    }
  }
}

/** Refuses a session whose code runs without the sandbox, where its user expects one. */
async function requireSandbox(id: string): Promise<void> {
  const record = await findSession(id);
  if (keptState(record, await statusOf(record)).gateway.sandboxed) return;
  throw new ConfigError(
    `Session ${id} was started with --no-sandbox: continue it with that option, too, or end it with ` +
      `\`ipybox sessions end ${id}\``,
  );
}
