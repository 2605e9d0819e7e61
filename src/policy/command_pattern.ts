import { type Match, matchesGlob } from "./match.ts";
import type { ShellCommand, ShellWord } from "./shell_command.ts";

/**
 * Matches a command against a pattern such as `git log **`: one pattern for each word, in which `*`
 * and `?` stand for characters, and `**` for any number of words.
 *
 * @param pattern The pattern. `> FILE` and `< FILE` are about redirections.
 * @param command The command.
 * @returns `"maybe"` where it depends on what the shell makes of the words, or on which of several
 * programs of the same name is meant.
 */
export function matchCommand(pattern: string, command: ShellCommand): Match {
  const items = pattern.trim().split(/\s+/);
  const [first = ""] = items;
  if (first !== "**" && (first === ">" || first === "<") !== command.redirection) return "no";
  if (matches(items, command.words, false)) return "yes";
  if (matches(items, command.words, true)) return "maybe";
  const [name, ...rest] = command.words;
  const bare = name?.text.split("/").at(-1);
  if (command.redirection || name === undefined || bare === undefined || bare === name.text) {
    return "no";
  }
  const other = [{ text: bare, dynamic: false }, ...rest];
  return matches(items, other, true) ? "maybe" : "no";
}

/** @param possibly Whether words that are not known yet may turn out as the pattern has them. */
function matches(
  items: readonly string[],
  words: readonly ShellWord[],
  possibly: boolean,
): boolean {
  // reachable[j]: the items so far can match the first j words
  let reachable: boolean[] = [true];
  for (let j = 0; j < words.length; j++) {
    reachable.push(possibly && reachable[j] === true && words[j]?.dynamic === true);
  }
  for (const item of items) {
    const next: boolean[] = [];
    for (let j = 0; j <= words.length; j++) {
      const word = j === 0 ? undefined : words[j - 1];
      let reached = item === "**" && reachable[j] === true;
      if (word !== undefined) {
        if (item === "**") reached ||= next[j - 1] === true;
        else if (!word.dynamic) reached ||= reachable[j - 1] === true && fits(item, word, possibly);
        // an unknown word may be this item and more, or nothing at all
        else if (possibly) {
          reached ||= reachable[j - 1] === true || reachable[j] === true || next[j - 1] === true;
        }
      }
      next.push(reached);
    }
    reachable = next;
  }
  return reachable[words.length] === true;
}

/** `*` in a path says little of where it leads once there is a `..` in it. */
function fits(item: string, { text }: ShellWord, possibly: boolean): boolean {
  const match = matchesGlob(item, text);
  if (match !== "yes") return match === "maybe" && possibly;
  return possibly || !/[*?]/.test(item) || item === "*" || !/(^|\/)\.\.(\/|$)/.test(text);
}
