const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };
const LAST_CODE_POINT = 0x10ffff;

/** The value of a Python string literal, as `repr()` and IPython's transformations write it. */
export function unquoted(literal: string): string {
  return literal.slice(1, -1).replace(
    /\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|.)/gs,
    (whole, escape: string) => {
      if (escape.length <= 1) return ESCAPES[escape] ?? escape;
      const code = parseInt(escape.slice(1), 16);
      return code <= LAST_CODE_POINT ? String.fromCodePoint(code) : whole; // forged
    },
  );
}
