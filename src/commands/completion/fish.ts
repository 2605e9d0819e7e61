import { shellWord } from "../../base/shell_word.ts";
import type { CommandLine, CommandWords, OptionWords } from "./command_line.ts";

/** A completion script for fish. */
export function fishScript({ options, commands }: CommandLine): string {
  return `# Completes ipybox's command line in fish: ipybox completion fish | source
function __ipybox_words --description 'Whether this follows a command, and so many words if a number is given'
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- "$words[2]" $argv[1]; or return 1
    not set -q argv[2]; or test (count $words) -eq $argv[2]
end
complete -c ipybox -f
complete -c ipybox -n 'contains -- -- (commandline -opc)' -F
${options.map((option) => optionLine(option, "__fish_use_subcommand")).join("\n")}
${commands.map(commandLines).join("\n")}
`;
}

function commandLines({ name, summary, options, actions, takesFiles }: CommandWords): string {
  const here = `__ipybox_words ${name}`;
  return [
    line("-n", "__fish_use_subcommand", "-a", name, "-d", summary),
    ...options.map((option) => optionLine(option, here)),
    ...(actions.length === 0 ? [] : [line("-n", `${here} 2`, "-a", actions.join(" "))]),
    ...(takesFiles ? [line("-n", here, "-F")] : []),
  ].join("\n");
}

function optionLine({ forms, help, value }: OptionWords, condition: string): string {
  const names = forms.flatMap((form) =>
    form.startsWith("--") ? ["-l", form.slice(2)] : ["-s", form.slice(1)]
  );
  return line("-n", condition, ...names, ...valueWords(value), "-d", help);
}

function valueWords(value: OptionWords["value"]): string[] {
  if (value === undefined) return [];
  const { choices, files } = value;
  const words = [...choices, ...(files === "folder" ? ["(__fish_complete_directories)"] : [])];
  return [
    files === "file" ? "-rF" : "-x",
    ...(words.length === 0 ? [] : ["-a", words.join(" ")]),
  ];
}

function line(...words: readonly string[]): string {
  return `complete -c ipybox ${words.map(shellWord).join(" ")}`;
}
