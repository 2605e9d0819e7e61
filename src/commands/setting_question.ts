import { ConfigError } from "../base/errors.ts";
import { terminalSize } from "../base/terminal.ts";
import { agrees, type CommandIo, type ParsedArgs } from "./command.ts";
import { type ForeignPart, partRows } from "./foreign_rows.ts";

/** A setting in a workspace that does not count yet, and the question to a person about it. */
export interface WaitingSetting {
  /** The name of the record of its refusal. */
  readonly name: string;
  /** A person who refused it is asked again once this has changed. */
  readonly value: unknown;
  /** The file, relative to the workspace. */
  readonly file: string;
  /** Why nobody can be asked about it. */
  readonly problem?: ConfigError;
  readonly title?: string;
  /** What would count, or has changed. */
  readonly parts: readonly ForeignPart[];
  /** Warnings about it, in ipybox's words. */
  readonly warnings?: readonly string[];
  /** Lines that must still be on the screen when a person is asked. */
  readonly widest?: readonly string[];
  readonly question: string;
  readonly accepted: string;
  readonly refused: string;
  /** Accepts it. Resolves to whether that could be recorded. */
  accept(): Promise<boolean>;
}

/** The person said no. */
export class RefusedError extends ConfigError {}

/** Rows on the screen besides the widest part of a setting. */
const MARGIN_ROWS = 4;

/** Shows a setting and has it accepted, by `--yes` or a person. Whether other processes see that. */
export async function askAbout(
  setting: WaitingSetting,
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<boolean> {
  const { title, parts, warnings = [], widest = [] } = setting;
  if (setting.problem !== undefined) throw setting.problem;
  const { columns, rows } = terminalSize();
  io.err([...title === undefined ? [] : [title], ...partRows(parts, columns)].join("\n"));
  for (const warning of warnings) io.log.warn(warning);
  if (!parsed.has("yes")) {
    if (!io.interactive) {
      throw new ConfigError(
        `${setting.refused}: there is no terminal to ask on. Add --yes to accept`,
      );
    }
    if (partRows([{ heading: "", lines: widest }], columns).length > rows - MARGIN_ROWS) {
      throw new ConfigError(
        "The rules that allow any tool or command do not fit on this screen: " +
          `read ${setting.file}, and accept it with \`ipybox trust --yes\``,
      );
    }
    if (!await agrees(io, setting.question)) throw new RefusedError(setting.refused);
  }
  const isKept = await setting.accept();
  io.err(setting.accepted);
  return isKept;
}
