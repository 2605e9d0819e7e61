import { printableOutput } from "./columns.ts";

/** An SGR sequence, and the start of one at the end of a chunk. */
// deno-lint-ignore no-control-regex -- control characters are what is looked for
const SEQUENCE = /\x1b\[([\d;:]{0,64})m/;
// deno-lint-ignore no-control-regex -- as above
const UNFINISHED = /\x1b(?:\[[\d;:]{0,64})?$/;
const RESET = "\x1b[0m";

/** The style that an SGR parameter sets or, as `""`, ends. Bold is ipybox's own; nothing hides or blinks. */
const ATTRIBUTES: readonly (readonly [code: RegExp, attribute: string, ends: RegExp])[] = [
  [/^(?:3[0-7]|9[0-7])$/, "foreground", /^39$/],
  [/^(?:4[0-7]|10[0-7])$/, "background", /^49$/],
  [/^2$/, "dim", /^22$/],
  [/^3$/, "italic", /^23$/],
  [/^4$/, "underline", /^24$/],
  [/^7$/, "inverse", /^27$/],
];

/** The parameters after `38` or `48`, for one of 256 colors or a mixed one. */
const MIXED = /^(?:5;\d{1,3}|2;\d{1,3};\d{1,3};\d{1,3})(?=;|$)/;

/**
 * Passes the colors of code's output on to a terminal, and shows all else of it like
 * {@linkcode printableOutput}. Accepted colors are written anew; each row begins with the current style and
 * ends without it, so that no color gets into ipybox's own text.
 */
export class CodeColors {
  readonly #set = new Map<string, string>();
  /** The start of a sequence that the next chunk continues. */
  #unfinished = "";

  /** The next chunk of output, for the terminal. */
  show(chunk: string): string {
    const whole = this.#unfinished + chunk;
    const text = whole.replace(UNFINISHED, "");
    this.#unfinished = whole.slice(text.length);
    return text.split(SEQUENCE).map((part, at) => {
      if (at % 2 === 0) return this.#colored(printableOutput(part));
      this.#take(part);
      return "";
    }).join("");
  }

  /** The rest at the end of the output. */
  end(): string {
    const rest = printableOutput(this.#unfinished);
    this.#unfinished = "";
    this.#set.clear();
    return rest;
  }

  #colored(text: string): string {
    if (this.#set.size === 0) return text;
    const open = `\x1b[${[...this.#set.values()].join(";")}m`;
    return text.replace(/[^\r\n]+/g, (row) => open + row + RESET);
  }

  #take(parameters: string): void {
    let left = parameters;
    do {
      const [code = ""] = left.split(";", 1);
      left = left.slice(code.length + 1);
      if (/^0*$/.test(code)) this.#set.clear();
      if (code === "38" || code === "48") {
        const [mixed] = MIXED.exec(left) ?? [];
        if (mixed === undefined) return;
        left = left.slice(mixed.length + 1);
        this.#set.set(code === "38" ? "foreground" : "background", `${code};${mixed}`);
      }
      for (const [sets, attribute, ends] of ATTRIBUTES) {
        if (sets.test(code)) this.#set.set(attribute, code);
        if (ends.test(code)) this.#set.delete(attribute);
      }
    } while (left !== "");
  }
}
