import {
  type Command,
  type CommandEntry,
  EXIT,
  HELP_OPTION,
  type OptionSpec,
  UsageError,
} from "./command.ts";

/** The words that can come next on a command line. */
interface Completions {
  readonly words: readonly string[];
  /** Whether files or folders can, too. */
  readonly paths: "files" | "folders" | "none";
}

/**
 * The scripts ask ipybox itself at each Tab. It prints the kind of paths that can come next, and then
 * one word per line.
 */
const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `# Completes ipybox's command line in bash, from 3.2 on: eval "$(ipybox completion bash)"
_ipybox() {
  local current=\${COMP_WORDS[COMP_CWORD]} paths words
  { read -r paths; words=$(cat); } < <(ipybox completion words -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ $current == = ]] && current=
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  # Bash 3.2 cannot do without files.
  if [[ $paths == folders ]]; then compopt -o dirnames +o default 2>/dev/null
  elif [[ $paths != files ]]; then compopt +o default 2>/dev/null
  fi
}
complete -o default -F _ipybox ipybox
`,
  zsh: `#compdef ipybox
# Completes ipybox's command line in zsh: eval "$(ipybox completion zsh)"
_ipybox() {
  local -a found=("\${(@f)$(ipybox completion words -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ $PREFIX == --*=* ]] && compset -P '*='
  compadd -- \${found[2,-1]}
  case $found[1] in
    files) _files ;;
    folders) _files -/ ;;
  esac
}
if [[ $funcstack[1] == _ipybox ]]; then _ipybox "$@"; else compdef _ipybox ipybox; fi
`,
  fish: `# Completes ipybox's command line in fish: ipybox completion fish | source
function __ipybox_words
    set -l current (commandline -ct)
    set -l found (ipybox completion words -- (commandline -opc)[2..] $current 2>/dev/null)
    set -l option (string match -r '^--[^=]*=' -- $current)
    for word in $found[2..]
        echo "$option$word"
    end
    switch "$found[1]"
        case files
            __fish_complete_path $current
        case folders
            __fish_complete_directories $current
    end
end
complete -c ipybox -f -a '(__ipybox_words)'
`,
};

/** The command that prints completion scripts for all commands, itself included. */
export function completionOf(
  commands: Readonly<Record<string, CommandEntry>>,
  options: Readonly<Record<string, OptionSpec>>,
): Command {
  return {
    usage: Object.keys(SCRIPTS).join("\n"),
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
    run: async ({ positional: [shell = ""], rest }, io) => {
      if (shell === "words") {
        const { words, paths } = await completionsOf(rest, commands, options);
        io.out([paths, ...words].map((line) => `${line}\n`).join(""));
        return EXIT.ok;
      }
      const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
      if (script === undefined) {
        const names = Object.keys(SCRIPTS).join(", ");
        throw new UsageError(`No completion for "${shell}": use one of ${names}`);
      }
      io.out(script);
      return EXIT.ok;
    },
  };
}

const FILES: Completions = { words: [], paths: "files" };

/** What can come next: words that begin with the last one of `typed`, which may be empty. */
export async function completionsOf(
  typed: readonly string[],
  commands: Readonly<Record<string, CommandEntry>>,
  options: Readonly<Record<string, OptionSpec>>,
): Promise<Completions> {
  const [name = "", ...args] = withoutEquals(typed);
  const last = args.pop();
  const names = Object.keys(commands);
  if (last === undefined) return wordsFrom(name, [...names, "help", ...formsOf(options)]);
  if (name === "help") return wordsFrom(last, args.length === 0 ? names : []);
  const entry = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (entry === undefined) return wordsFrom(last, []);
  if (args.includes("--")) return FILES;
  const { usage, options: own } = await entry.load();
  const option = optionAt(args.at(-1), own);
  if (option?.value !== undefined) {
    return wordsFrom(last, option.choices ?? [], pathsIn(option.value));
  }
  if (last.startsWith("-")) return wordsFrom(last, formsOf({ ...own, help: HELP_OPTION }));
  const firsts = usage.split("\n").map((form) => form.split(" ", 1)[0] ?? "");
  const actions = firsts.flatMap((first) => /^\[?([a-z]+)\]?$/.exec(first)?.[1] ?? []);
  const paths = firsts.includes("FILE") ? "files" : "none";
  return wordsFrom(last, args.length === 0 ? actions : [], paths);
}

/** Splits `--option=value` into two words and drops the equals sign, a separate word in bash. */
function withoutEquals(typed: readonly string[]): string[] {
  const words = typed.flatMap((word) => {
    const [, option, value] = /^(--[^=]+)=(.*)$/s.exec(word) ?? [];
    return option === undefined || value === undefined ? [word] : [option, value];
  });
  if (words.at(-1) === "=") words.push("");
  return words.filter((word, at) => word !== "=" || !words[at - 1]?.startsWith("--"));
}

function wordsFrom(
  beginning: string,
  words: readonly string[],
  paths: Completions["paths"] = "none",
): Completions {
  return { words: [...new Set(words)].filter((word) => word.startsWith(beginning)), paths };
}

function formsOf(options: Readonly<Record<string, OptionSpec>>): string[] {
  return Object.entries(options).flatMap(([name, { short }]) => [
    `--${name}`,
    ...(short === undefined ? [] : [`-${short}`]),
  ]);
}

function optionAt(
  word: string | undefined,
  options: Readonly<Record<string, OptionSpec>>,
): OptionSpec | undefined {
  return Object.entries(options)
    .find(([name, { short }]) => word === `--${name}` || word === `-${short}`)?.[1];
}

/** The kind of path that an option takes, judging by its value's name in the help. */
function pathsIn(value: string): Completions["paths"] {
  if (/\b(?:FILE|PATH)\b/.test(value)) return "files";
  return /\bDIR\b/.test(value) ? "folders" : "none";
}
