import { isDeepStrictEqual } from "node:util";
import { ConfigError } from "../base/errors.ts";
import { SessionGoneError, statusOf } from "../place/supervisor.ts";
import { attachOwn, type CodeExecutor, startOwn } from "./code_executor.ts";
import { endDurable, findSession, keptState, NameTakenError, refuseOfClient } from "./durable.ts";
import type { NotedOptions } from "./durable.ts";
import type { OwnExecutorOptions } from "./options.ts";

interface NamedSessionOptions extends OwnExecutorOptions {
  readonly durable?: NotedOptions;
  readonly workspace: string;
  /** Whether to replace a session that was lost. */
  readonly replacesLost?: boolean;
}

/** A named durable session. */
interface NamedSession {
  readonly executor: CodeExecutor;
  /** The earlier owner of the name: nothing, the session itself, or a session that was lost. */
  readonly before: "nothing" | "itself" | "lost";
}

/** Attaches to the workspace's session with a name, or starts it. */
export async function startNamed(
  name: string,
  { replacesLost = false, ...options }: NamedSessionOptions,
): Promise<NamedSession> {
  const start = () => startOwn({ ...options, durable: { ...options.durable, name } });
  try {
    return { executor: await start(), before: "nothing" };
  } catch (error) {
    if (!(error instanceof NameTakenError)) throw error;
    try {
      await requireSame(error.id, options);
      const executor = await attachOwn(error.id, options);
      return { executor, before: "itself" };
    } catch (lost) {
      if (!replacesLost || !(lost instanceof SessionGoneError)) throw lost;
      await endDurable(error.id);
      return { executor: await start(), before: "lost" };
    }
  }
}

/** Throws if the code of a session runs elsewhere than the user expects, or without the sandbox. */
async function requireSame(
  id: string,
  { durable, placement, sandbox }: NamedSessionOptions,
): Promise<void> {
  const record = await findSession(id);
  if (durable?.note === undefined) refuseOfClient(record);
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

/** A value after a round trip through JSON. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}
