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
 * @param traceback The entries of Jupyter's `error` message, which executed code may have forged.
 * @returns The entries that are the user's business.
 */
export function cleanTraceback(traceback: readonly string[]): string[] {
  return traceback.filter((entry) => !isOwnFrame(entry)).map(showMagics);
}

/** Whether the code of a frame is ipybox's own. It is looked at by lines: that is linear. */
function isOwnFrame(entry: string): boolean {
  const lines = entry.split("\n");
  const [first = ""] = lines;
  const folder = RUNTIME.exec(first);
  if (first.startsWith("File ") && folder !== null) {
    return /:\d/.test(first.slice(folder.index));
  }
  // A generated function that only passes the call on. A user may have added others.
  const header = lines.findIndex((line) =>
    line.startsWith("File ") && PACKAGES.test(line) && PASSING.some((end) => line.endsWith(end))
  );
  return header !== -1 && lines.some((line, at) => at > header && isCurrentCall(line));
}

const RUNTIME = /[\\/]ipybox_runtime[\\/]/;
const PACKAGES = /[\\/]mcptools[\\/]/;
const PASSING = [", in run(params)", ", in run_async(params)"] as const;

/** Whether a frame stands at this line, and it is the call of a tool. */
function isCurrentCall(line: string): boolean {
  return /^-+> \d+ /.test(line) && /\bCLIENT\.run(?:_sync)?\(/.test(line);
}

/** Shows `!command`, `%magic` and `%%magic` instead of the calls that IPython makes of them. */
export function showMagics(entry: string): string {
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
    (whole, escape: string) => {
      if (escape.length <= 1) return ESCAPES[escape] ?? escape;
      const code = parseInt(escape.slice(1), 16);
      return code <= LAST_CODE_POINT ? String.fromCodePoint(code) : whole; // forged
    },
  );
}

const LAST_CODE_POINT = 0x10ffff;
