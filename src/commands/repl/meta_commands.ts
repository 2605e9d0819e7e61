import type { CodeExecutor } from "../../executor/code_executor.ts";
import { type CommandIo, table } from "../command.ts";
import { servers } from "../servers.ts";
import { tools } from "../tools.ts";

/** Where a command of the session is run. */
export interface MetaContext {
  readonly io: CommandIo;
  readonly workspace: string;
  readonly executor: CodeExecutor;
}

/** No code begins with the colon of these. */
const COMMANDS: readonly (readonly [form: string, help: string])[] = [
  [":help", "Show this help"],
  [":reset", "Start afresh: variables are lost, and MCP servers stop"],
  [":servers", "List the registered MCP servers"],
  [":tools [QUERY]", "List or search their tools"],
  [":quit", "End the session, as Ctrl-D does"],
];

const KEYS: readonly (readonly [keys: string, help: string])[] = [
  ["Enter", "Run the code when it is complete; an empty line ends a block"],
  ["Alt-Enter, Ctrl-J", "Begin another line in any case"],
  ["Up, Down, Ctrl-R", "Go to or search what was typed before"],
  ["Tab", "Complete; at the start of a line, indent"],
  ["Ctrl-C", "Interrupt the cell; again, end it and its kernel if need be"],
  ["NAME?, NAME??", "Show the documentation, or the source, of an object"],
];

/** Runs a command of the session. */
export async function runMetaCommand(
  line: string,
  { io, workspace, executor }: MetaContext,
): Promise<"reset" | "done"> {
  const [, name = "", after = ""] = /^:\s*(\S*)([^]*)$/.exec(line.trimEnd()) ?? [];
  const rest = after.trimStart();
  const inWorkspace = ["--workspace", workspace];
  switch (name) {
    case "help":
    case "h":
    case "?":
    case "":
      io.err([...table(COMMANDS), "", ...table(KEYS)].join("\n"));
      return "done";
    case "reset":
      await executor.reset();
      io.err("A fresh kernel is there; the variables are gone.");
      return "reset";
    case "servers":
      await servers.run(inWorkspace, io);
      return "done";
    case "tools":
      await tools.run([...(rest === "" ? [] : [rest]), ...inWorkspace], io);
      return "done";
    default:
      io.err(`No command :${name}: see :help`);
      return "done";
  }
}
