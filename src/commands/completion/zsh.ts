import { shellWord } from "../../base/shell_word.ts";
import type { CommandLine, CommandWords, OptionWords } from "./command_line.ts";

/** A completion script for zsh, which is sourced, or found in `fpath` as `_ipybox`. */
export function zshScript({ options, commands }: CommandLine): string {
  const names = commands.map(({ name, summary }) => shellWord(`${name}:${summary}`));
  return `#compdef ipybox
# Completes ipybox's command line in zsh: eval "$(ipybox completion zsh)"
_ipybox() {
  local -a commands=(
${names.map((name) => `    ${name}`).join("\n")}
  )
  if ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
    _describe command commands
    return
  fi
  if ((\${words[(i)--]} < CURRENT)); then
    _files
    return
  fi
  case $words[2] in
${commands.map(caseOf).join("\n")}
    *)
      _arguments -S ${options.map(optionSpec).join(" ")} ;;
  esac
}
_ipybox_word_or_file() {
  _alternative "words:word:($*)" files:file:_files
}
if [[ $funcstack[1] == _ipybox ]]; then _ipybox "$@"; else compdef _ipybox ipybox; fi
`;
}

function caseOf({ name, options, actions, takesFiles }: CommandWords): string {
  const others = [
    ...(actions.length > 0 ? [shellWord(`1: :(${actions.join(" ")})`)] : []),
    ...(takesFiles ? [shellWord("*: :_files")] : []),
  ];
  return [
    `    ${name})`,
    "      shift words",
    "      ((CURRENT--))",
    "      _arguments -S \\",
    ...[...options.map(optionSpec), ...others].map((spec) => `        ${spec} \\`),
    "        ;;",
  ].join("\n");
}

/** An option for `_arguments`, as words of the shell. */
function optionSpec({ forms, help, isRepeatable, value }: OptionWords): string {
  const text = `[${help.replaceAll(/[[\]\\]/g, "\\$&")}]${valueSpec(value)}`;
  const others = isRepeatable ? "*" : forms.length > 1 ? `(${forms.join(" ")})` : "";
  return forms.map((form) => shellWord(`${others}${form}${value === undefined ? "" : "="}${text}`))
    .join(" ");
}

function valueSpec(value: OptionWords["value"]): string {
  if (value === undefined) return "";
  const { name, choices, files } = value;
  const message = name.replaceAll(":", "\\:");
  const found = files === undefined ? undefined : files === "file" ? "_files" : "_files -/";
  if (choices.length === 0) return `:${message}:${found ?? " "}`;
  if (found === undefined) return `:${message}:(${choices.join(" ")})`;
  return `:${message}: _ipybox_word_or_file ${choices.join(" ")}`;
}
