import { pathToFileURL } from "node:url";
import { printable } from "../../base/log.ts";
import { readHostileBytes } from "../../files/safe.ts";
import type { CommandIo, OptionSpec, ParsedArgs } from "../command.ts";
import { terminalSize } from "./columns.ts";

/** `--images HOW`, an option of commands that run code and follow it. */
export const IMAGES: OptionSpec = {
  value: "HOW",
  help:
    "Pictures: path, or inline too in kitty, Ghostty, WezTerm, iTerm2, mintty, and with sixels in Windows Terminal, foot, Konsole and mlterm (default: path)",
};

/** How to send pictures to a terminal. */
export type PictureProtocol = "kitty" | "iTerm2" | "sixel";

/** The protocol for `--images inline`; warns if the terminal is not known to have one. */
export function picturesOf(parsed: ParsedArgs, io: CommandIo): PictureProtocol | undefined {
  if (parsed.choice("images", ["path", "inline"]) !== "inline") return undefined;
  parsed.refuseBeside("images", ["json"], ": JSON has the paths");
  const protocol = io.stderrIsTerminal ? protocolOf((name) => Deno.env.get(name)) : undefined;
  if (protocol === undefined) {
    io.log.warn(
      "Pictures are shown by their paths alone: stderr is not a terminal that is known to show " +
        "them, or tmux or screen is in between",
    );
  }
  return protocol;
}

/** Terminals, by the variables that they set for programs. Those that SSH passes on come first. */
const TERMINALS: readonly (readonly [name: string, value: RegExp, protocol: PictureProtocol])[] = [
  ["TERM", /^xterm-(?:kitty|ghostty)$/, "kitty"],
  ["LC_TERMINAL", /^iTerm2$/, "iTerm2"],
  ["TERM_PROGRAM", /^ghostty$/, "kitty"],
  ["TERM_PROGRAM", /^(?:iTerm\.app|WezTerm|mintty)$/, "iTerm2"],
  ["KITTY_WINDOW_ID", /./, "kitty"],
  ["TERM", /^(?:foot|mlterm)/, "sixel"],
  ["KONSOLE_VERSION", /^(?:2[2-9]|[3-9]\d)\d{4}$/, "sixel"],
  ["WT_SESSION", /./, "sixel"],
];

/** The protocol of the terminal that set these variables, if it is known to have one. */
export function protocolOf(
  env: (name: string) => string | undefined,
): PictureProtocol | undefined {
  // These inherit the variables of the terminal around them, but pass no pictures on.
  const isWithin = env("TMUX") || env("STY") || /^(?:tmux|screen|dumb)/.test(env("TERM") ?? "");
  if (isWithin) return undefined;
  return TERMINALS.find(([name, value]) => value.test(env(name) ?? ""))?.[2];
}

/** The path of a file, as a link to it in terminals that show links (OSC 8). */
export function fileLink(path: string, io: Pick<CommandIo, "links">): string {
  const text = printable(path);
  if (!io.links) return text;
  // Over SSH, the name shows the terminal that the file is not on its own machine.
  const host = encodeURIComponent(Deno.hostname());
  return `\x1b]8;;file://${host}${pathToFileURL(path).pathname}\x1b\\${text}\x1b]8;;\x1b\\`;
}

/** Names a picture at the terminal, and shows it if the terminal has a protocol and it is a PNG. */
export async function showPicture(
  path: string,
  { io, pictures }: { readonly io: CommandIo; readonly pictures?: PictureProtocol },
): Promise<void> {
  io.err(`Image: ${fileLink(path, io)}`);
  if (pictures === undefined) return;
  const { safePng, sixelsOf } = await import("../../mcp_server/images.ts");
  const bytes = await readHostileBytes(path, MAX_BYTES);
  const png = bytes && safePng(bytes);
  if (png === undefined) return;
  if (pictures !== "sixel") return io.errText(`${inline(png, pictures, terminalSize())}\n`);
  const sixels = await sixelsOf(png.bytes, pixelsFor(png, terminalSize()));
  if (sixels !== undefined) io.errText(`\x1bP0;1q${sixels}\x1b\\\n`);
}

/** The largest file to show: terminals do nothing else while they decode it. */
const MAX_BYTES = 8 * 2 ** 20;

interface Picture {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly width: number;
  readonly height: number;
}

/** The sequence that shows a picture below the row of the cursor. Only its base64 is from code. */
function inline(
  png: Picture,
  protocol: Exclude<PictureProtocol, "sixel">,
  screen: { readonly columns: number; readonly rows: number },
): string {
  const data = png.bytes.toBase64();
  const { side, cells } = cellsOf(png, screen);
  if (protocol === "iTerm2") {
    const size = `size=${png.bytes.length};${side}=${cells}`;
    return `\x1b]1337;File=inline=1;preserveAspectRatio=1;${size}:${data}\x07`;
  }
  const chunks = data.match(/.{1,4096}/g) ?? [];
  return chunks.map((chunk, at) => {
    // q=2 suppresses responses, which would be read as keys.
    const first = at === 0 ? `a=T,f=100,q=2,${side === "width" ? "c" : "r"}=${cells},` : "";
    return `\x1b_G${first}m=${at === chunks.length - 1 ? 0 : 1};${chunk}\x1b\\`;
  }).join("");
}

/** The assumed size of a cell, in pixels of a picture: the terminal's is unknown. */
const CELL = { width: 10, height: 20 };

/** The side of a picture to give in cells, so that it fits on the screen; the other side follows. */
export function cellsOf(
  { width, height }: { readonly width: number; readonly height: number },
  screen: { readonly columns: number; readonly rows: number },
): { readonly side: "width" | "height"; readonly cells: number } {
  const room = { columns: Math.max(1, screen.columns - 1), rows: Math.max(1, screen.rows - 2) };
  const columns = Math.min(room.columns, Math.ceil(width / CELL.width));
  const rows = columns * CELL.width * height / width / CELL.height;
  return rows > room.rows
    ? { side: "height", cells: room.rows }
    : { side: "width", cells: columns };
}

/** The size in pixels of a picture that is shrunk to fit on the screen, but not enlarged. */
export function pixelsFor(
  { width, height }: Pick<Picture, "width" | "height">,
  screen: { readonly columns: number; readonly rows: number },
): { readonly width: number; readonly height: number } {
  const { side, cells } = cellsOf({ width, height }, screen);
  const scale = Math.min(
    1,
    side === "width" ? cells * CELL.width / width : cells * CELL.height / height,
  );
  return {
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
  };
}
