import { emitKeypressEvents } from "node:readline";
import { PassThrough } from "node:stream";
import { abortable } from "../../base/signals.ts";

export type Key =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "paste"; readonly text: string }
  /** Another key by its name, such as `"left"`, `"ctrl-left"`, `"meta-b"`, `"ctrl-r"`. */
  | { readonly type: "key"; readonly name: string }
  /** The terminal is gone. */
  | { readonly type: "end" };

/** The marks that a terminal puts around pasted text after {@linkcode PASTE_ON}. */
const PASTE_START = "\x1b[200~";
const PASTE_END = "\x1b[201~";

/** Makes a terminal mark pasted text, or stops it. */
export const PASTE_ON = "\x1b[?2004h";
export const PASTE_OFF = "\x1b[?2004l";

const MAX_WAITING = 65_536;

interface Keypress {
  readonly sequence?: string;
  readonly name?: string;
  readonly ctrl?: boolean;
  readonly meta?: boolean;
}

/** The keys of a terminal, in order. */
export class TypedKeys {
  readonly #source: () => Promise<Uint8Array | null>;
  readonly #stream = new PassThrough();
  readonly #decoder = new TextDecoder();
  #waiting: Key[] = [];
  #wake: (() => void) | undefined;
  #reading: Promise<void> | undefined;
  #text = "";
  #pasting = false;
  #ended = false;

  /** @param source Waits for bytes of the terminal; `null` is its end. */
  constructor(source: () => Promise<Uint8Array | null>) {
    this.#source = source;
    emitKeypressEvents(this.#stream);
    this.#stream.on("keypress", (text: string | undefined, key: Keypress) => {
      this.#add(keyOf(text, key));
    });
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  async next(signal?: AbortSignal): Promise<Key> {
    for (;;) {
      signal?.throwIfAborted();
      const key = this.#waiting.shift();
      if (key !== undefined) return key;
      if (this.#ended) return { type: "end" };
      const woken = Promise.withResolvers<void>();
      this.#wake = woken.resolve;
      this.#reading ??= this.#read();
      await abortable(woken.promise, signal);
    }
  }

  /** Adds Ctrl-C, which arrives as a signal. */
  interrupt(): void {
    this.#add({ type: "key", name: "ctrl-c" });
  }

  drop(): void {
    this.#waiting = [];
    this.#pasting = false;
    this.#text = "";
  }

  async #read(): Promise<void> {
    const bytes = await this.#source();
    this.#reading = undefined;
    if (bytes === null) this.#ended = true;
    else this.#take(bytes);
    this.#wake?.();
  }

  #take(bytes: Uint8Array): void {
    this.#text += this.#decoder.decode(bytes, { stream: true });
    for (;;) {
      const mark = this.#pasting ? PASTE_END : PASTE_START;
      const at = this.#text.indexOf(mark);
      if (at === -1) break;
      const before = this.#text.slice(0, at);
      this.#text = this.#text.slice(at + mark.length);
      if (this.#pasting) this.#add({ type: "paste", text: before.replace(/\r\n?/g, "\n") });
      else this.#type(before);
      this.#pasting = !this.#pasting;
    }
    if (this.#pasting) return;
    const kept = beginningOfPaste(this.#text);
    const typed = this.#text.slice(0, this.#text.length - kept);
    this.#text = this.#text.slice(typed.length);
    this.#type(typed);
  }

  #type(text: string): void {
    if (text !== "") this.#stream.emit("data", new TextEncoder().encode(text));
  }

  #add(key: Key): void {
    if (this.#waiting.length >= MAX_WAITING) return;
    this.#waiting.push(key);
    this.#wake?.();
  }
}

function keyOf(text: string | undefined, { sequence = "", name, ctrl, meta }: Keypress): Key {
  const typed = text ?? sequence;
  // deno-lint-ignore no-control-regex -- control characters are what this is about
  if (!ctrl && !meta && typed !== "" && !/[\x00-\x1f\x7f]/.test(typed)) {
    return { type: "text", text: typed };
  }
  return { type: "key", name: `${ctrl ? "ctrl-" : ""}${meta ? "meta-" : ""}${name ?? ""}` };
}

/** The length of a text's end that may be the beginning of {@linkcode PASTE_START}. */
function beginningOfPaste(text: string): number {
  for (let length = PASTE_START.length - 1; length >= 3; length--) {
    if (text.endsWith(PASTE_START.slice(0, length))) return length;
  }
  return 0;
}
