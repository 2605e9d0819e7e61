import { unicodeWidth } from "@std/cli";
import type { CodeCompletions, CodeStatus } from "../../kernel/typed_code.ts";
import { printable } from "../../base/log.ts";
import type { EditedText } from "../terminal/editor.ts";
import type { terminalSize } from "../../base/terminal.ts";
import type { InputHistory } from "./input_history.ts";
import { LineBuffer, LineScreen } from "./line_buffer.ts";
import { pythonColors } from "./python_colors.ts";
import { type Key, PASTE_OFF, PASTE_ON, type TypedKeys } from "./typed_keys.ts";

interface LineEditorOptions {
  readonly keys: TypedKeys;
  readonly history: InputHistory;
  readonly write: (text: string) => void;
  readonly size: typeof terminalSize;
  readonly color: boolean;
  /** Whether Enter ends the code or begins another line; `undefined` to do neither. */
  readonly isComplete: (code: string) => Promise<CodeStatus | undefined>;
  readonly complete: (code: string, cursor: number) => Promise<CodeCompletions>;
  /** Lets the person edit the code in a program that gets the terminal. */
  readonly edit: (code: string) => Promise<EditedText>;
}

interface Search {
  query: string;
  at: number;
  /** The text before the search. */
  readonly before: string;
}

/** Lets a person type code at a terminal, on one or more lines. */
export class LineEditor {
  readonly #options: LineEditorOptions;
  readonly #screen: LineScreen;
  #buffer = new LineBuffer();
  #prompt = "";
  #active = false;
  /** Text to write once the terminal is no longer lent to an editor. */
  #held: (() => void)[] | undefined;
  #isAfterCtrlX = false;
  #search: Search | undefined;
  /** The current entry of the history, and the text before going there. */
  #place = { at: 0, draft: "" };

  constructor(options: LineEditorOptions) {
    this.#options = options;
    this.#screen = new LineScreen(options.write, options.size);
  }

  /** Reads code; `undefined` at the end of input. */
  async read(prompt: string, signal: AbortSignal): Promise<string | undefined> {
    const { write, keys, history } = this.#options;
    this.#prompt = prompt;
    this.#buffer = new LineBuffer();
    this.#place = { at: history.entries.length, draft: "" };
    this.#active = true;
    write(PASTE_ON);
    try {
      for (;;) {
        if (keys.isEmpty) this.#draw();
        const key = await keys.next(signal);
        const end = await this.#press(key);
        if (end !== undefined) return end.code;
      }
    } finally {
      this.#search = undefined;
      this.#buffer.move("end");
      this.#draw();
      write(PASTE_OFF);
      this.#screen.leave();
      this.#active = false;
    }
  }

  /** Lets others write above the code that is being typed. */
  aside(write: () => void): void {
    if (this.#held !== undefined) return void this.#held.push(write);
    if (this.#active) this.#screen.clear();
    write();
    if (this.#active) this.#draw();
  }

  /** Redraws, for example after the terminal was resized. */
  refresh(): void {
    if (this.#active) this.#draw();
  }

  /** Redraws below the text that a shell wrote while it had the terminal. */
  resume(): void {
    if (!this.#active) return;
    this.#options.write(PASTE_ON);
    this.#screen.forget();
    this.#draw();
  }

  #draw(): void {
    const { text, cursor } = this.#buffer;
    const search = this.#search;
    const prompt = search === undefined ? this.#prompt : `(search: ${search.query}): `;
    const continuation = "...: ".padStart(this.#prompt.length);
    const colors = this.#options.color
      ? { colors: { prompt: "1;32", text: pythonColors(text) } }
      : {};
    this.#screen.draw({ prompt, continuation, text, cursor, ...colors });
  }

  /** The current entry of the history, unchanged. */
  get #recalled(): string | undefined {
    return this.#options.history.entries[this.#place.at];
  }

  /** Handles a key, and returns the code once it is complete. */
  async #press(key: Key): Promise<{ readonly code: string | undefined } | undefined> {
    if (key.type === "end") return { code: undefined };
    const isAfterCtrlX = this.#isAfterCtrlX;
    this.#isAfterCtrlX = key.type === "key" && key.name === "ctrl-x";
    if (this.#search !== undefined && this.#pressInSearch(this.#search, key)) return undefined;
    if (key.type === "text" || key.type === "paste") {
      this.#buffer.insert(key.text);
      return undefined;
    }
    if (isAfterCtrlX && key.name === "ctrl-e") {
      await this.#edit();
      return undefined;
    }
    switch (key.name) {
      case "return":
        return await this.#enter();
      case "ctrl-c":
        this.#buffer.move("end");
        this.#draw();
        this.#buffer.insert("^C");
        return { code: "" };
      case "ctrl-d":
        if (this.#buffer.text === "") return { code: undefined };
        this.#buffer.delete();
        return undefined;
      case "tab":
        await this.#complete();
        return undefined;
      case "ctrl-l":
        this.#screen.wipe();
        return undefined;
      case "ctrl-r":
        this.#search = { query: "", at: this.#place.at, before: this.#buffer.text };
        return undefined;
      case "up":
      case "ctrl-p":
        if (!this.#buffer.up()) this.#goInHistory(-1);
        return undefined;
      case "down":
      case "ctrl-n":
        if (!this.#buffer.down()) this.#goInHistory(1);
        return undefined;
      default:
        EDITS[key.name]?.(this.#buffer);
        return undefined;
    }
  }

  async #enter(): Promise<{ readonly code: string } | undefined> {
    const buffer = this.#buffer;
    const { text } = buffer;
    if (text.trim() === "" || text.startsWith(":")) return { code: text.trim() };
    // Code that ran before is complete, so it runs again if unchanged.
    if (text === this.#recalled && buffer.cursor === text.length) return { code: text };
    if (!buffer.onLastLine) {
      buffer.insertLine();
      return undefined;
    }
    // An empty line ends a block, even if it is already indented.
    const ended = text.replace(/\n[ \t]+$/, "\n");
    // After a cell magic and its body, IPython wants a second one.
    const asked = /^%%.*\n[^]*\S\n$/.test(ended) ? `${ended}\n` : ended;
    const answer = await this.#options.isComplete(asked);
    if (answer === undefined) return undefined;
    const { status, indent } = answer;
    const goesOn = status === "incomplete" ||
      status === "unknown" && text.includes("\n") && !/\n[ \t]*$/.test(text);
    if (!goesOn) return { code: text.trimEnd() };
    buffer.insertLine(indent);
    return undefined;
  }

  async #complete(): Promise<void> {
    const buffer = this.#buffer;
    const before = buffer.beforeInLine;
    if (before.trim() === "") {
      buffer.insert(" ".repeat(4 - before.length % 4));
      return;
    }
    const found = await this.#options.complete(buffer.text, buffer.cursor);
    const { text, cursor, choices } = completed(buffer.text, found);
    buffer.set(text, cursor);
    if (choices.length === 0) return;
    const { write, size } = this.#options;
    this.aside(() => write(choiceRows(choices, size().columns)));
  }

  /** Lends the terminal to an editor, and takes the edited text. */
  async #edit(): Promise<void> {
    const { write, edit } = this.#options;
    this.#screen.clear();
    write(PASTE_OFF);
    this.#active = false;
    const held = this.#held = [];
    let edited: EditedText;
    try {
      edited = await edit(this.#buffer.text);
    } finally {
      write(PASTE_ON);
      this.#active = true;
      this.#held = undefined;
      for (const act of held) this.aside(act);
    }
    if ("text" in edited) this.#buffer.set(edited.text);
    else this.aside(() => write(`Not changed: ${printable(edited.problem)}\n`));
  }

  #goInHistory(step: -1 | 1): void {
    const { entries } = this.#options.history;
    const at = this.#place.at + step;
    if (at < 0 || at > entries.length) return;
    if (this.#place.at === entries.length) this.#place.draft = this.#buffer.text;
    this.#place.at = at;
    this.#buffer.set(entries[at] ?? this.#place.draft);
  }

  /** Handles a key of the search. Another key ends the search and has its usual meaning. */
  #pressInSearch(search: Search, key: Key): boolean {
    if (key.type === "text") {
      search.query += key.text;
      this.#find(search, search.at);
    } else if (key.type === "key" && key.name === "backspace") {
      search.query = [...search.query].slice(0, -1).join("");
      this.#find(search, this.#options.history.entries.length);
    } else if (key.type === "key" && key.name === "ctrl-r") {
      this.#find(search, search.at - 1);
    } else if (key.type === "key" && /^(ctrl-[cg]|(meta-)?escape)$/.test(key.name)) {
      this.#buffer.set(search.before);
      this.#search = undefined;
    } else {
      if (key.type === "key" && key.name === "return") this.#buffer.move("end");
      this.#search = undefined;
      return false;
    }
    return true;
  }

  /** Shows the last entry, from an index backwards, that contains the query. */
  #find(search: Search, from: number): void {
    const { entries } = this.#options.history;
    for (let at = Math.min(from, entries.length - 1); at >= 0; at--) {
      const entry = entries[at] ?? "";
      const found = entry.indexOf(search.query);
      if (found === -1) continue;
      search.at = this.#place.at = at;
      this.#buffer.set(entry, found);
      return;
    }
  }
}

const EDITS: Readonly<Record<string, (buffer: LineBuffer) => void>> = {
  "enter": (buffer) => buffer.insertLine(),
  "meta-return": (buffer) => buffer.insertLine(),
  "meta-enter": (buffer) => buffer.insertLine(),
  "backspace": (buffer) => buffer.backspace(),
  "ctrl-h": (buffer) => buffer.backspace(),
  "delete": (buffer) => buffer.delete(),
  "left": (buffer) => buffer.move("left"),
  "ctrl-b": (buffer) => buffer.move("left"),
  "right": (buffer) => buffer.move("right"),
  "ctrl-f": (buffer) => buffer.move("right"),
  "home": (buffer) => buffer.move("lineStart"),
  "ctrl-a": (buffer) => buffer.move("lineStart"),
  "end": (buffer) => buffer.move("lineEnd"),
  "ctrl-e": (buffer) => buffer.move("lineEnd"),
  "ctrl-left": (buffer) => buffer.move("wordStart"),
  "meta-b": (buffer) => buffer.move("wordStart"),
  "meta-left": (buffer) => buffer.move("wordStart"),
  "ctrl-right": (buffer) => buffer.move("wordEnd"),
  "meta-f": (buffer) => buffer.move("wordEnd"),
  "meta-right": (buffer) => buffer.move("wordEnd"),
  "ctrl-w": (buffer) => buffer.kill("spaceBefore"),
  "meta-backspace": (buffer) => buffer.kill("wordStart"),
  "meta-d": (buffer) => buffer.kill("wordEnd"),
  "ctrl-u": (buffer) => buffer.kill("lineStart"),
  "ctrl-k": (buffer) => buffer.kill("lineEnd"),
  "ctrl-y": (buffer) => buffer.yank(),
};

interface Completed {
  readonly text: string;
  readonly cursor: number;
  /** The possible completions, if there is more than one. */
  readonly choices: readonly string[];
}

const MAX_CHOICES = 100;

/**
 * Completes code as far as it is unambiguous. Ignores names with invisible characters, and magics
 * unless one is being typed or the line is empty.
 */
export function completed(code: string, completions: CodeCompletions): Completed {
  const { start, end } = completions;
  const row = code.slice(code.lastIndexOf("\n", end - 1) + 1, end);
  const takesMagics = row.trim() === "" || /%\w*$/.test(row);
  const matches = completions.matches.filter((match) =>
    printable(match) === match && !/[\n\t]/.test(match) && (takesMagics || !match.startsWith("%"))
  );
  const [first] = matches;
  if (first === undefined) return { text: code, cursor: end, choices: [] };
  const common = matches.reduce(commonStart);
  const typed = code.slice(start, end);
  const longer = common.length >= typed.length ? common : typed;
  const text = code.slice(0, start) + longer + code.slice(end);
  const choices = matches.length > 1 && longer === typed ? matches : [];
  return { text, cursor: start + longer.length, choices };
}

export function choiceRows(choices: readonly string[], columns: number): string {
  const common = choices.reduce(commonStart);
  const skipped = common.slice(0, common.lastIndexOf(".") + 1).length;
  const shown = choices.slice(0, MAX_CHOICES).map((choice) => choice.slice(skipped));
  const width = Math.max(...shown.map((choice) => unicodeWidth(choice))) + 2;
  const perRow = Math.max(1, Math.floor((columns - 1) / width));
  const rows: string[] = [];
  for (let at = 0; at < shown.length; at += perRow) {
    const cells = shown.slice(at, at + perRow).map((choice) =>
      choice + " ".repeat(width - unicodeWidth(choice))
    );
    rows.push(cells.join("").trimEnd());
  }
  const left = choices.length - shown.length;
  if (left > 0) rows.push(`… ${left} more`);
  return rows.join("\n") + "\n";
}

function commonStart(a: string, b: string): string {
  const [first, second] = [[...a], [...b]];
  const differs = first.findIndex((character, at) => character !== second[at]);
  return differs === -1 ? a : first.slice(0, differs).join("");
}
