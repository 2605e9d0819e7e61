/** What a frame's header looks like when its code is ipybox's own. */
const OWN_FRAME = /^File [^\n]*[\\/]ipybox_runtime[\\/][^\n]*:\d+/;

/** A frame of a generated function that only passes the call on. A user may have added others. */
const PASSING_FRAME =
  /^File [^\n]*[\\/]mcptools[\\/][^\n]*, in run(_async)?\(params\)\n[^]*^-+> \d+ [^\n]*\bCLIENT\.run(_sync)?\(/m;

/** A Python string literal, as `repr` and IPython's transformations write it. */
const LITERAL = String.raw`('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")`;

const SHELL = new RegExp(
  String.raw`(=\s*)?get_ipython\(\)\.(system|getoutput)\(${LITERAL}\)`,
  "g",
);
const LINE_MAGIC = new RegExp(
  String.raw`get_ipython\(\)\.run_line_magic\(${LITERAL}, ${LITERAL}\)`,
  "g",
);
const CELL_MAGIC = new RegExp(
  String.raw`get_ipython\(\)\.run_cell_magic\(${LITERAL}, ${LITERAL}, ${LITERAL}\)`,
  "g",
);

/**
 * Makes a traceback show what the user wrote: without frames of ipybox, and with `!command`,
 * `%magic` and `%%magic` instead of the calls that IPython makes of them.
 *
 * @param traceback The entries of Jupyter's `error` message.
 * @returns The entries that are the user's business.
 */
export function cleanTraceback(traceback: readonly string[]): string[] {
  return traceback.filter((entry) => !OWN_FRAME.test(entry) && !PASSING_FRAME.test(entry)).map(
    showMagics,
  );
}

function showMagics(entry: string): string {
  if (!entry.includes("get_ipython()")) return entry;
  return entry
    .replace(SHELL, (_, assignment: string | undefined, method: string, command: string) => {
      const escape = assignment === undefined && method === "getoutput" ? "!!" : "!";
      return `${assignment ?? ""}${escape}${unquote(command)}`;
    })
    .replace(LINE_MAGIC, (_, name: string, rest: string) => `%${unquote(name)} ${unquote(rest)}`)
    .replace(CELL_MAGIC, (_, name: string, rest: string, body: string) => {
      const line = `%%${unquote(name)} ${unquote(rest)}`.trimEnd();
      return `${line}\n${unquote(body)}`;
    });
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };

/** The value of a Python string literal. */
function unquote(literal: string): string {
  return literal.slice(1, -1).replace(
    /\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)/gs,
    (_, escape: string) =>
      escape.length > 1
        ? String.fromCodePoint(parseInt(escape.slice(1), 16))
        : ESCAPES[escape] ?? escape,
  );
}
