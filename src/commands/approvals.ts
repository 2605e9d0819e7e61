import { ApprovalClient } from "../approval/client.ts";
import type { PersonRequest } from "../approval/wire.ts";
import { isInside } from "../process/trusted_path.ts";
import { Mutex } from "../base/mutex.ts";
import { settledWithin } from "../base/signals.ts";
import {
  pageLinkOf,
  type RunningSession,
  runningSessions,
} from "../mcp_server/running_sessions.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { linesOfAlone } from "./sessions.ts";
import { printable } from "./terminal/columns.ts";
import { workspaceOf } from "./shared.ts";
import { askAtTerminal } from "./terminal/answerer.ts";

export const command: Command = {
  usage: "[OPTIONS]",
  options: {
    workspace: {
      value: "DIR",
      help: "Only sessions that work in this folder or below it (default: all of yours)",
    },
    link: { help: "Print one-time links to their approval pages instead of asking" },
  },
  notes: [
    "For clients that cannot ask you, such as headless ones. Leave this running in a",
    "terminal: it asks you there to approve calls of `ipybox mcp` and to answer",
    "questions from MCP servers, also for sessions that start later. Press Ctrl-C to",
    "stop.",
    "",
    "Examples:",
    "",
    "  ipybox approvals",
    "  ipybox approvals --workspace . --link",
  ].join("\n"),
  run,
};

/** How often to look for new sessions. */
const LOOK_MS = 1000;

/** Another terminal is connected, or the client is being asked about a running cell. */
const TAKEN = "somebody else answers for it now, such as another `ipybox approvals`. " +
  "This one takes over when that ends";

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  // A program that runs commands for a model could run this one, too, and must not get its output.
  if (!io.interactive || !io.stdoutIsTerminal) {
    throw new UsageError("Run this in a terminal: a person must decide, not a program");
  }
  const workspace = parsed.has("workspace") ? await workspaceOf(parsed) : undefined;
  return parsed.has("link") ? await printLinks(io, workspace) : await serve(io, workspace);
}

async function printLinks(io: CommandIo, workspace: string | undefined): Promise<number> {
  const sessions = await runningSessions(workspace);
  for (const session of sessions) {
    io.err(`${nameOf(session)}:`);
    io.out(`${await pageLinkOf(session)}\n`);
  }
  if (sessions.length > 0) return EXIT.ok;
  io.err("No `ipybox mcp` session is running here");
  return EXIT.failed;
}

/** Asks at the terminal until it is interrupted. */
async function serve(io: CommandIo, workspace: string | undefined): Promise<number> {
  const { decide, answer } = askAtTerminal(io);
  await using clients = new AsyncDisposableStack();
  const connected = new Set<string>();
  const refused = new Set<string>();
  const turns = new Mutex();
  const interrupted = Promise.withResolvers<void>();
  io.signal.addEventListener("abort", () => interrupted.resolve(), { once: true });
  const ask = async <Asked extends PersonRequest>(
    session: RunningSession,
    request: Asked,
    act: (request: Asked) => Promise<void>,
  ): Promise<void> => {
    using _turn = await turns.acquire();
    if (request.signal.aborted) return;
    if (connected.size > 1) io.err(`${nameOf(session)}:`);
    await act(request);
  };
  const tellAlone = async () => {
    const isMeant = (session: { readonly workspace: string }) =>
      workspace === undefined || isInside(session.workspace, workspace);
    for (const line of await linesOfAlone(isMeant, io)) io.err(line);
  };
  await tellAlone();
  io.err("Waiting for approval requests. Press Ctrl-C to stop.");
  while (!io.signal.aborted) {
    for (const session of await runningSessions(workspace)) {
      const { url, token } = session;
      if (connected.has(url)) continue;
      try {
        const client = clients.use(
          await ApprovalClient.connect({
            url,
            token,
            log: io.log,
            onRequest: (request) => ask(session, request, decide),
            onQuestion: (request) => ask(session, request, answer),
          }),
        );
        connected.add(url);
        refused.delete(url);
        io.err(`Deciding for ${nameOf(session)}`);
        client.closed.then(async () => {
          connected.delete(url);
          io.err(`${nameOf(session)} has ended`);
          if (!io.signal.aborted) await tellAlone();
        }).catch((error: unknown) => io.log.warn(`Cannot list sessions: ${error}`));
      } catch (error) {
        if (refused.has(url) || !(error instanceof Error)) continue;
        refused.add(url);
        const why = error.message.endsWith("status code: 409") ? TAKEN : error.message;
        io.err(`Not yet connected to ${nameOf(session)}: ${printable(why)}`);
      }
    }
    await settledWithin(interrupted.promise, LOOK_MS);
  }
  return EXIT.ok;
}

function nameOf({ workspace, label }: RunningSession): string {
  return printable(label === "" ? workspace : `${label} in ${workspace}`);
}
