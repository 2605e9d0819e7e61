import { ConfigError } from "../base/errors.ts";
import { agrees, type CommandIo, type ParsedArgs } from "./command.ts";

/** How a person is asked about a setting in a workspace that does not count yet. */
export interface SettingQuestion {
  /** Shows it. */
  show(): Promise<void> | void;
  readonly question: string;
  readonly accepted: string;
  readonly refused: string;
  /** Whether that could be recorded. */
  accept(): Promise<boolean>;
}

/** The person said no. */
export class RefusedError extends ConfigError {}

/** Shows a setting, asks about it unless `--yes` accepts it, and records that; whether other processes see it. */
export async function askAbout(
  setting: SettingQuestion,
  parsed: ParsedArgs,
  io: CommandIo,
): Promise<boolean> {
  await setting.show();
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
