import type { CallElsewhere } from "../approval/page/desk.ts";
import type { Logger } from "../base/log.ts";
import { messageOf } from "../base/message_of.ts";
import { CallJournal } from "../calls/journal.ts";
import { folderOf, isOfClient, type ListedSession, listSessions } from "./durable.ts";

/** Whose neighbours are meant. */
interface OwnSession {
  /** The session's id, if it is durable. */
  readonly id: string | undefined;
  /** The sessions that it belongs to, apart from those of its workspace. */
  readonly group: string | undefined;
  /** Receives why the calls of a session cannot be read. */
  readonly log: Logger;
}

/** The calls that wait for a decision in other durable sessions of a workspace, and of a group. */
export async function callsElsewhere(
  workspace: string,
  { id: own, group, log }: OwnSession,
): Promise<CallElsewhere[]> {
  try {
    const sessions = await listSessions((other) =>
      other.workspace === workspace || (group !== undefined && other.group === group)
    );
    const others = sessions.filter(({ id, status }) => id !== own && status !== undefined);
    return (await Promise.all(others.map((other) => waitingIn(other, log)))).flat();
  } catch (error) {
    log.debug(`Cannot show what waits in other sessions: ${messageOf(error)}`);
    return [];
  }
}

async function waitingIn(
  { id, record, status }: ListedSession,
  log: Logger,
): Promise<CallElsewhere[]> {
  const isAttached = status?.attached ?? false;
  try {
    const waiting = await CallJournal.waitingIn(folderOf(id));
    const session = { session: id, name: record?.name, isAttached, isOfClient: isOfClient(record) };
    return waiting.map((call) => ({ ...call, ...session }));
  } catch (error) {
    log.debug(`Cannot show what waits in session ${id}: ${messageOf(error)}`);
    return [];
  }
}
