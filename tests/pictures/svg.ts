import type { Recording, Span } from "./recording.ts";
import type { Cell } from "./screen.ts";

const COLUMN = 9;
const LINE = 21;
const FONT_SIZE = 15;
const BAR = 40;
const PADDING = 18;
const INK = "#e6edf3";
const PAPER = "#161b22";
/** Red, green, yellow, blue, magenta, cyan, white, as in the escape sequences 31 to 37. */
const COLORS = ["#ff8e85", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76d9e6", "#ffffff"];

/** What a picture of a terminal is like. */
export interface TerminalStyle {
  readonly columns: number;
  /** How many rows are in view. */
  readonly rows: number;
  /** What its bar says. */
  readonly title: string;
  /** What is shown, for those who do not see it. */
  readonly description: string;
}

/**
 * Draws a recording as an SVG that plays again and again. For people who prefer reduced motion, and
 * programs that show no animation, it is a picture of the end.
 *
 * @param recording What is shown.
 * @param style The terminal.
 * @returns The text of the SVG.
 */
export function animatedTerminal(recording: Recording, style: TerminalStyle): string {
  const { columns, rows, title, description } = style;
  const width = columns * COLUMN + 2 * PADDING;
  const height = rows * LINE + BAR + 2 * PADDING;
  const film = new Film(recording.seconds);
  const body = drawing(recording, { film, columns, rows });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" \
width="${width}" height="${height}" role="img" aria-labelledby="description">
<title id="description">${escaped(description)}</title>
<style>
text{font:${FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:${INK};white-space:pre}
.b{font-weight:700}
${COLORS.map((color, i) => `.f${i + 1}{fill:${color}}`).join("\n")}
.cover{opacity:0}
@media (prefers-reduced-motion:no-preference){
${film.css()}
}
</style>
<rect x=".5" y=".5" width="${width - 1}" height="${
    height - 1
  }" rx="10" fill="${PAPER}" stroke="#30363d"/>
<path d="M.5 ${BAR}V10.5a10 10 0 0 1 10-10h${width - 21}a10 10 0 0 1 10 10V${BAR}z" fill="#21262d"/>
<circle cx="24" cy="20" r="6" fill="#ff5f57"/>
<circle cx="44" cy="20" r="6" fill="#febc2e"/>
<circle cx="64" cy="20" r="6" fill="#28c840"/>
<text x="${width / 2}" y="25" text-anchor="middle" style="font-size:13px;fill:#9da7b3">${
    escaped(title)
  }</text>
<svg x="${PADDING}" y="${BAR + PADDING}" width="${columns * COLUMN}" height="${rows * LINE}">
${body}
</svg>
</svg>
`;
}

interface Stage {
  readonly film: Film;
  readonly columns: number;
  readonly rows: number;
}

function drawing(recording: Recording, { film, columns, rows }: Stage): string {
  const { spans, cursor } = recording;
  const drawn: string[] = [];
  const scrolls: [at: number, by: number][] = [];
  let bottom = rows;
  for (const span of spans) {
    if (span.row >= bottom) {
      bottom = span.row + 1;
      scrolls.push([span.at, (bottom - rows) * LINE]);
    }
    drawn.push(`<g class="${film.appear(span.at)}">${textOf(span)}</g>`);
    if (span.typing > 0) drawn.push(cover(span, film, columns));
  }
  for (const { row, column, from, until } of cursor) {
    const isLast = until === recording.seconds;
    const name = isLast ? film.appear(from) : `cover ${film.stay(from, until)}`;
    drawn.push(`<g class="${name}">${block(row, column)}</g>`);
  }
  const end = (bottom - rows) * LINE;
  return `<g class="${film.scroll(scrolls)}" transform="translate(0 ${-end})">
${drawn.join("\n")}
</g>`;
}

/** The rows of a span as text, in pieces of the same style, each at its column in any font. */
function textOf({ row, column, cells }: Span): string {
  const pieces: { at: number; text: string; style: Cell }[] = [];
  for (const [i, cell] of cells.entries()) {
    const last = pieces.at(-1);
    if (last?.style.bold === cell.bold && last.style.color === cell.color) last.text += cell.char;
    else pieces.push({ at: column + i, text: cell.char, style: cell });
  }
  return pieces.map(({ at, text, style: { bold, color } }) => {
    const start = text.length - text.trimStart().length;
    const word = text.trim();
    if (word === "") return "";
    const names = [...(bold ? ["b"] : []), ...(color > 0 ? [`f${color}`] : [])].join(" ");
    const style = names === "" ? "" : ` class="${names}"`;
    return `<text x="${(at + start) * COLUMN}" y="${baseline(row)}"${style} \
textLength="${word.length * COLUMN}" lengthAdjust="spacingAndGlyphs">${escaped(word)}</text>`;
  }).join("");
}

/** Hides what is not typed yet, and has the cursor at its edge. */
function cover({ row, column, cells, at, typing }: Span, film: Film, columns: number): string {
  const x = column * COLUMN;
  const name = film.type({ at, typing, keys: cells.length, by: cells.length * COLUMN });
  return `<g class="cover ${name}"><rect x="${x}" y="${row * LINE}" \
width="${columns * COLUMN}" height="${LINE}" fill="${PAPER}"/>${block(row, column)}</g>`;
}

function block(row: number, column: number): string {
  return `<rect x="${column * COLUMN}" y="${row * LINE + 2}" \
width="${COLUMN}" height="${LINE - 4}" fill="${INK}" opacity=".8"/>`;
}

function baseline(row: number): number {
  return row * LINE + 15.5;
}

/** The animations of a picture: each lasts as long as the film, so that all begin again together. */
class Film {
  readonly #seconds: number;
  readonly #frames = new Map<string, string>();

  constructor(seconds: number) {
    this.#seconds = seconds;
  }

  /** Shows something from a time on. */
  appear(at: number): string {
    return this.#name(`0%{opacity:0}${this.#percent(at)}{opacity:1}`);
  }

  /** Shows something between two times. */
  stay(from: number, until: number): string {
    return this.#name(
      `0%{opacity:0}${this.#percent(from)}{opacity:1}${this.#percent(until)}{opacity:0}`,
    );
  }

  /** Moves something to the right as keys are typed, and shows it as long. */
  type(keys: { at: number; typing: number; keys: number; by: number }): string {
    const start = this.#percent(keys.at);
    const end = this.#percent(keys.at + keys.typing);
    const moved = `transform:translateX(${keys.by}px)`;
    return this.#name(
      `0%{opacity:0}${start}{opacity:1;transform:none;animation-timing-function:steps(${keys.keys})}` +
        `${end}{opacity:1;${moved}}${
          this.#percent(keys.at + keys.typing + 0.01)
        }{opacity:0;${moved}}`,
    );
  }

  /** Moves rows up, at each time so far from where they began. */
  scroll(steps: readonly (readonly [at: number, by: number])[]): string {
    const moves = steps.map(([at, by]) => `${this.#percent(at)}{transform:translateY(${-by}px)}`);
    return this.#name(`0%{transform:translateY(0px)}${moves.join("")}`);
  }

  css(): string {
    const names = [...this.#frames].map(([frames, name]) =>
      `@keyframes ${name}{${frames}}\n.${name}{animation:${name} ${
        this.#seconds.toFixed(2)
      }s step-end infinite}`
    );
    return names.join("\n");
  }

  #name(frames: string): string {
    const name = this.#frames.get(frames) ?? `a${this.#frames.size}`;
    this.#frames.set(frames, name);
    return name;
  }

  #percent(at: number): string {
    return `${Number((at / this.#seconds * 100).toFixed(3))}%`;
  }
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
