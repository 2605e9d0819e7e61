import { type Match, matchesGlob } from "./match.ts";
import type { ShellText, SimpleCommand } from "./shell_command.ts";

/**
 * Whether a rule with this pattern may allow a text: only if it is one simple command. Patterns are
 * such as `git log **`: one for each word, in which `*` and `?` stand for characters, and `**` for any
 * number of words.
 */
export function allowsCommand(pattern: string, text: ShellText): Match {
  const items = itemsOf(pattern);
  if (text.type === "other") return mentions(items, text) ? "maybe" : "no";
  const match = matchWords(items, text);
  // What a program starts is the program's own matter only where the rule is about that program.
  return match === "yes" && text.starts && !namesProgram(items) ? "maybe" : match;
}

/**
 * Whether a rule with this pattern restricts a text, which it does wherever the text has its words.
 */
export function restrictsCommand(pattern: string, text: ShellText): Match {
  const items = itemsOf(pattern);
  if (text.type === "other") return mentions(items, text) ? "yes" : "maybe";
  const match = matchWords(items, text);
  if (!text.starts || match === "yes") return match;
  if (mentions(items, text)) return "yes";
  const [name = ""] = items;
  return match === "maybe" || !text.plain || mentions([name], text) ? "maybe" : "no";
}

function itemsOf(pattern: string): string[] {
  return pattern.trim().split(/\s+/);
}

/** Whether a pattern spells out a program: wildcards may only stand for the folder that it is in. */
function namesProgram([first = ""]: readonly string[]): boolean {
  return !/[*?]/.test(first.split("/").at(-1) ?? "");
}

function matchWords(items: readonly string[], { words }: SimpleCommand): Match {
  if (matches(items, words, isFor)) return "yes";
  if (matches(items, words, mayBeFor)) return "maybe";
  const [name, ...rest] = words;
  const bare = name?.split("/").at(-1);
  if (name === undefined || bare === undefined || bare === name) return "no";
  return matches(items, [bare, ...rest], mayBeFor) ? "maybe" : "no";
}

/** Whether the words of a pattern stand somewhere in a text, one behind the other. */
function mentions(items: readonly string[], { mentioned }: ShellText): boolean {
  return matches(["**", ...items, "**"], mentioned, (item, word) => {
    return mayBeFor(item, word) || mayBeFor(item, word.split("/").at(-1) ?? "");
  });
}

function matches(
  items: readonly string[],
  words: readonly string[],
  fits: (item: string, word: string) => boolean,
): boolean {
  // reachable[j]: the items so far can match the first j words
  let reachable: boolean[] = [true];
  for (const item of items) {
    const next: boolean[] = [];
    for (let j = 0; j <= words.length; j++) {
      const word = j === 0 ? undefined : words[j - 1];
      if (item === "**") next.push(reachable[j] === true || next[j - 1] === true);
      else next.push(word !== undefined && reachable[j - 1] === true && fits(item, word));
    }
    reachable = next;
  }
  return reachable[words.length] === true;
}

/** `*` in a path says little of where it leads once there is a `..` in it. */
function isFor(item: string, word: string): boolean {
  if (matchesGlob(item, word) !== "yes") return false;
  return !/[*?]/.test(item) || item === "*" || !/(^|\/)\.\.(\/|$)/.test(word);
}

function mayBeFor(item: string, word: string): boolean {
  return matchesGlob(item, word) !== "no";
}
