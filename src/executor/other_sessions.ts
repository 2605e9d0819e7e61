import type { PendingCall } from "../approval/page/backend.ts";
import type { Logger } from "../base/log.ts";
import { messageOf } from "../base/message_of.ts";
import { CallJournal } from "../calls/journal.ts";
import { folderOf, type ListedSession, listSessions } from "./durable.ts";

/** The session whose neighbors are listed. */
interface OwnSession {
  /** The session's id, if it is durable. */
  readonly id: string | undefined;
  /** Receives the reasons why calls of a session cannot be read. */
  readonly log: Logger;
}

/** The calls that wait for a decision in the workspace's other durable sessions. */
export async function callsOfOthers(
  workspace: string,
  { id: own, log }: OwnSession,
): Promise<PendingCall[]> {
  try {
    const sessions = await listSessions(workspace);
    const others = sessions.filter(({ id, status }) => id !== own && status !== undefined);
    return (await Promise.all(others.map((other) => waitingIn(other, log)))).flat();
  } catch (error) {
    log.debug(`Cannot show the calls that wait in other sessions: ${messageOf(error)}`);
    return [];
  }
}

async function waitingIn(
  { id, record, status }: ListedSession,
  log: Logger,
): Promise<PendingCall[]> {
  const isAttached = status?.attached ?? false;
  try {
    const waiting = await CallJournal.waitingIn(folderOf(id));
    const session = { session: id, name: record?.name, isAttached };
    return waiting.map((call) => ({ ...call, ...session }));
  } catch (error) {
    log.debug(`Cannot show the calls that wait in session ${id}: ${messageOf(error)}`);
    return [];
  }
}
