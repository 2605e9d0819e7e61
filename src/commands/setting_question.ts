import { ConfigError } from "../base/errors.ts";
import { terminalSize } from "../base/terminal.ts";
import { agrees, type CommandIo, type ParsedArgs } from "./command.ts";
import { type ForeignPart, partRows } from "./foreign_rows.ts";

/** How a person is asked about a setting in a workspace that does not count yet. */
export interface SettingQuestion {
  /** Shows it. */
  show(): void;
  readonly question: string;
  readonly accepted: string;
  readonly refused: string;
  /** Whether that could be recorded. */
  accept(): Promise<boolean>;
}

/** A settings file that does not count yet. */
export interface FileSetting extends Omit<SettingQuestion, "show"> {
  /** The name of the record of its refusal. */
  readonly name: string;
  /** A person who refused it is asked again once this has changed. */
  readonly value: unknown;
  /** The file, relative to the workspace. */
  readonly file: string;
  /** What would count then, or has changed. */
  readonly parts: readonly ForeignPart[];
  /** What is to be known about it, in ipybox's words. */
  readonly warnings?: readonly string[];
  /** What must not have left the screen when a person is asked. */
  readonly widest?: readonly string[];
}

/** The person said no. */
export class RefusedError extends ConfigError {}

/** Shows a setting, asks about it unless `--yes` accepts it, and records that; whether other processes see it. */
export async function askAbout(
  setting: SettingQuestion,
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<boolean> {
  setting.show();
  if (!parsed.has("yes")) {
    if (!io.interactive) {
      throw new ConfigError(
        `${setting.refused}: there is no terminal to ask on. Add --yes to accept`,
      );
    }
    if (!await agrees(io, setting.question)) throw new RefusedError(setting.refused);
  }
  const isKept = await setting.accept();
  io.err(setting.accepted);
  return isKept;
}

/** Rows on the screen besides the widest part of a setting. */
const MARGIN_ROWS = 4;

/** The question about a settings file at a terminal. */
export function fileQuestion(
  setting: FileSetting,
  parsed: ParsedArgs,
  io: CommandIo,
): SettingQuestion {
  const { parts, warnings = [], widest = [], file } = setting;
  const show = () => {
    const { columns, rows } = terminalSize();
    io.err(partRows(parts, columns).join("\n"));
    for (const warning of warnings) io.log.warn(warning);
    if (parsed.has("yes") || !io.interactive) return;
    const height = partRows([{ heading: "", lines: widest }], columns).length;
    if (height <= rows - MARGIN_ROWS) return;
    throw new ConfigError(
      "The rules that allow any tool or command do not fit on this screen: " +
        `read ${file}, and accept it with \`ipybox trust --yes\``,
    );
  };
  return { ...setting, show };
}
