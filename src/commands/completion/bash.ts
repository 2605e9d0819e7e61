import type { CommandLine, CommandWords, OptionWords } from "./command_line.ts";

/** A completion script for bash, from 3.2 on. Readline completes files where there are no words. */
export function bashScript({ options, commands }: CommandLine): string {
  const first = [...commands.map(({ name }) => name), ...formsOf(options)];
  return `# Completes ipybox's command line in bash: eval "$(ipybox completion bash)"
_ipybox() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local words= files= at
  # Bash splits --option=value into three words.
  if [[ $current == = ]]; then current=
  elif [[ $previous == = ]]; then previous=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  if ((COMP_CWORD == 1)); then words=${quoted(first)}
  else
    case \${COMP_WORDS[1]} in
${commands.map(caseOf).join("\n")}
    esac
    for ((at = 2; at < COMP_CWORD; at++)); do
      if [[ \${COMP_WORDS[at]} == -- ]]; then words= files=file; fi
    done
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  # Bash 3.2 cannot do without files.
  if [[ $files == folder ]]; then compopt -o dirnames +o default 2>/dev/null
  elif [[ $files == "" ]]; then compopt +o default 2>/dev/null
  fi
}
complete -o default -F _ipybox ipybox
`;
}

function caseOf({ name, options, actions, takesFiles }: CommandWords): string {
  const valued = options.flatMap(({ forms, value }) =>
    value === undefined ? [] : [{ forms, value }]
  );
  return [
    `      ${name})`,
    "        case $previous in",
    ...valued.map(({ forms, value: { choices, files = "" } }) =>
      `          ${forms.join("|")}) words=${quoted(choices)} files=${files} ;;`
    ),
    "          *)",
    `            if [[ $current == -* ]]; then words=${quoted(formsOf(options))}`,
    ...(actions.length === 0
      ? []
      : [`            elif ((COMP_CWORD == 2)); then words=${quoted(actions)}`]),
    ...(takesFiles ? ["            else files=file"] : []),
    "            fi ;;",
    "        esac ;;",
  ].join("\n");
}

function formsOf(options: readonly OptionWords[]): string[] {
  return options.flatMap(({ forms }) => forms);
}

/** Words as one of bash. None has a character that means anything there. */
function quoted(words: readonly string[]): string {
  return `'${words.join(" ")}'`;
}
