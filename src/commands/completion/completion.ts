import { type Command, type CommandEntry, EXIT, type OptionSpec, UsageError } from "../command.ts";
import { bashScript } from "./bash.ts";
import { type CommandLine, commandLineOf } from "./command_line.ts";
import { fishScript } from "./fish.ts";
import { zshScript } from "./zsh.ts";

const SHELLS: Readonly<Record<string, (line: CommandLine) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
};

/** The command that prints completion scripts for all commands, itself included. */
export function completionOf(
  commands: Readonly<Record<string, CommandEntry>>,
  options: Readonly<Record<string, OptionSpec>>,
): Command {
  return {
    usage: Object.keys(SHELLS).join("\n"),
    positional: { min: 1, max: 1 },
    options: {},
    notes: [
      "Completes commands, options, their values and files. Add the line of your shell",
      "to its settings:",
      "",
      "  bash, in ~/.bashrc:",
      '    eval "$(ipybox completion bash)"',
      "  zsh, in ~/.zshrc, after compinit:",
      '    eval "$(ipybox completion zsh)"',
      "  fish, in ~/.config/fish/config.fish:",
      "    ipybox completion fish | source",
    ].join("\n"),
    run: async ({ positional: [shell = ""] }, io) => {
      const script = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
      if (script === undefined) {
        const names = Object.keys(SHELLS).join(", ");
        throw new UsageError(`No completion for "${shell}": there is one for ${names}`);
      }
      io.out(script(await commandLineOf(commands, options)));
      return EXIT.ok;
    },
  };
}
