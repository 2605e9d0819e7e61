import type { ColoredPart } from "./line_buffer.ts";

/** The colors of tokens, as parameters of SGR. */
const COLORS = [
  ["comment", "2"],
  ["string", "32"],
  ["number", "33"],
  ["keyword", "35"],
  ["magic", "34"],
] as const;

const KEYWORD =
  "False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|" +
  "from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield";
/** Names that are keywords only at the beginning of certain lines. */
const SOFT_KEYWORD = String.raw`(?<=(?:^|\n)[ \t]*)` +
  String.raw`(?:(?:match|case)(?=[ \t]+[^\s=.,:)\]].*:)|type(?=[ \t]+\w+[ \t]*[=[]))`;
const NUMBER = [
  String.raw`0[xX](?:_?[\da-fA-F])+|0[bB](?:_?[01])+|0[oO](?:_?[0-7])+`,
  String.raw`(?:\d(?:_?\d)*(?:\.(?:\d(?:_?\d)*)?)?|\.\d(?:_?\d)*)(?:[eE][+-]?\d(?:_?\d)*)?[jJ]?`,
].join("|");
/** A string, whose end may not be typed yet. */
const STRING = "(?:[fFtT][rR]?|[rR][fFtTbB]?|[bB][rR]?|[uU])?(?:" + [
  String.raw`"""(?:\\[^]?|(?!""")[^\\])*(?:""")?|'''(?:\\[^]?|(?!''')[^\\])*(?:''')?`,
  String.raw`"(?:\\[^]?|[^"\\\n])*"?|'(?:\\[^]?|[^'\\\n])*'?`,
].join("|") + ")";
/** A magic or shell command, at the beginning of a line or assigned. Some are followed by Python. */
const MAGIC = String.raw`(?<=(?:^|[\n=])[ \t]*)` +
  String
    .raw`(?:%{1,2}(?:capture|memit|prun|time|timeit)(?![\w.])|(?:%{1,2}[\w.]+|!{1,2}(?!=))(?<rest>[^\n]*))`;

const TOKEN = new RegExp(
  [
    `(?<magic>${MAGIC}|\\?)`, // Python has no question marks
    "(?<comment>#[^\\n]*)",
    `(?<string>${STRING})`,
    `(?<number>${NUMBER})`,
    String.raw`(?<keyword>(?:${KEYWORD})(?!\p{ID_Continue})|${SOFT_KEYWORD})`,
    String.raw`[\p{ID_Start}_]\p{ID_Continue}*|[ \t]+|[^]`,
  ].join("|"),
  "gu",
);

/** A command of the session, or a magic whose cell is not Python. */
const OTHER = /^(?::\s*\S*|\s*%%(?!(?:capture|memit|prun|time|timeit)\b)\w+)/;

/**
 * The colors of code that is being typed. Anything but Python is left plain, such as commands after
 * `!`. An f-string has one color.
 *
 * Brackets are not counted: a line inside them that begins with `%` is colored as a magic. IPython's own
 * lexers are in the kernel, which may be busy, and parsers of Python know no magics.
 */
export function pythonColors(code: string): readonly ColoredPart[] {
  const [other] = OTHER.exec(code) ?? [];
  if (other !== undefined) return [{ start: 0, end: other.length, color: "34" }];
  return [...code.matchAll(TOKEN)].flatMap(({ index, groups = {} }) => {
    const [kind = "", color] = COLORS.find(([kind]) => groups[kind] !== undefined) ?? [];
    if (color === undefined) return [];
    const length = (groups[kind]?.length ?? 0) - (groups.rest?.length ?? 0);
    return [{ start: index, end: index + length, color }];
  });
}
