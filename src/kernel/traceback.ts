/**
 * Makes a traceback show what the user wrote: without frames of ipybox, and with `!command`,
 * `%magic` and `%%magic` instead of the calls that IPython makes of them.
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
  let shown = "";
  let done = 0;
  for (let at = entry.indexOf(SHELL), next; at !== -1; at = entry.indexOf(SHELL, next)) {
    next = at + SHELL.length;
    const call = callAt(entry, next);
    if (call === undefined) continue;
    next = call.end;
    const before = entry.slice(done, at);
    const isAssigned = before.trimEnd().endsWith("=");
    shown += before + call.show(isAssigned);
    done = call.end;
  }
  return shown + entry.slice(done);
}

const SHELL = "get_ipython().";

/** The calls that IPython makes, and how many literals each takes. */
const CALLS: readonly {
  readonly start: string;
  readonly count: number;
  readonly show: (literals: readonly string[], isAssigned: boolean) => string;
}[] = [
  { start: "system(", count: 1, show: ([command]) => `!${command}` },
  {
    start: "getoutput(",
    count: 1,
    show: ([command], isAssigned) => `${isAssigned ? "!" : "!!"}${command}`,
  },
  { start: "run_line_magic(", count: 2, show: ([name, rest]) => `%${name} ${rest}` },
  {
    start: "run_cell_magic(",
    count: 3,
    show: ([name, rest, body]) => `${`%%${name} ${rest}`.trimEnd()}\n${body}`,
  },
];

/** The call that stands at a place of a text, read by characters: that is linear. */
function callAt(
  text: string,
  at: number,
): { readonly show: (isAssigned: boolean) => string; readonly end: number } | undefined {
  const call = CALLS.find(({ start }) => text.startsWith(start, at));
  if (call === undefined) return undefined;
  const literals: string[] = [];
  for (let from = at + call.start.length;;) {
    const end = endOfLiteral(text, from);
    if (end === undefined) return undefined;
    literals.push(unquote(text.slice(from, end)));
    const isLast = literals.length === call.count;
    const separator = isLast ? ")" : ", ";
    if (!text.startsWith(separator, end)) return undefined;
    from = end + separator.length;
    if (isLast) return { show: (isAssigned) => call.show(literals, isAssigned), end: from };
  }
}

/** The end of a Python string literal, as `repr` and IPython's transformations write it. */
function endOfLiteral(text: string, start: number): number | undefined {
  const quote = text[start];
  if (quote !== "'" && quote !== '"') return undefined;
  for (let at = start + 1; at < text.length && text[at] !== "\n"; at++) {
    if (text[at] === quote) return at + 1;
    if (text[at] === "\\") at++;
  }
  return undefined;
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
