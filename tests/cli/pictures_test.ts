import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { inThisProcess } from "../support/command_io.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { ipyboxAtTerminal, type Typing } from "../support/terminal.ts";

/** Python that shows pictures: `png()`, with text of its own in it, and what `show()` is given as one. */
const SHOW = `
import base64, os, struct, zlib
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(width, height, size=0):
    rows = b"".join(b"\\0" + os.urandom(width) for _ in range(height))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    text = chunk(b"tEXt", b"Comment\\0EVIL")
    return b"\\x89PNG\\r\\n\\x1a\\n" + head + text + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
def show(data, mime="image/png"): display({mime: base64.b64encode(data).decode()}, raw=True)
`;

// deno-lint-ignore no-control-regex -- what kitty takes for a picture
const KITTY = /\x1b_G([^;]*);([^\x1b]*)\x1b\\/g;
// deno-lint-ignore no-control-regex -- what iTerm2 takes for one
const ITERM = /\x1b\]1337;File=([^:]*):([^\x07]*)\x07\n/g;
// deno-lint-ignore no-control-regex -- what a terminal takes for sixels
const SIXELS = /\x1bP0;1q([!-~]*)\x1b\\\n/g;
// deno-lint-ignore no-control-regex -- a link
const LINK = /\x1b\]8;;file:\/\/[^\/]+(\/[^\x1b]*)\x1b\\([^\x1b]*)\x1b\]8;;\x1b\\/g;

const FIGURE = `display({"application/vnd.plotly.v1+json": {"data": []}}, raw=True)`;

/** The terminal around the tests is not the one that they imitate. */
const NO_TERMINAL = {
  ...{ TMUX: "", STY: "", KITTY_WINDOW_ID: "", LC_TERMINAL: "", TERM_PROGRAM: "" },
  ...{ KONSOLE_VERSION: "", WT_SESSION: "" },
};

async function shown(
  code: string,
  env: Readonly<Record<string, string>>,
  args: readonly string[] = ["--images", "inline"],
): Promise<string> {
  await using workspace = await TempFolder.create();
  const command = ["run", "--no-sandbox", "--workspace", workspace.path, "-c", SHOW + code];
  const { output, code: exitCode } = await ipyboxAtTerminal([...command, ...args], [], {
    env: { ...NO_TERMINAL, ...env },
  });
  assertEquals(exitCode, 0, output);
  return output;
}

/** The chunks of a PNG. */
function chunksOf(base64: string): string[] {
  const bytes = Uint8Array.fromBase64(base64);
  const view = new DataView(bytes.buffer);
  const kinds: string[] = [];
  for (let at = 8; at < bytes.length; at += 12 + view.getUint32(at)) {
    kinds.push(new TextDecoder().decode(bytes.subarray(at + 4, at + 8)));
  }
  return kinds;
}

Deno.test("ipybox run --images inline shows the pixels of PNGs to kitty, and paths of all else", async () => {
  const output = await shown(
    `
show(png(100, 80))
show(b"\\x1b_Ga=d\\x1b\\\\ is no picture")
show(png(4, 4)[:20])
show(struct.pack(">16s", b"\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR") + struct.pack(">II", 60000, 60000) + bytes(99))
show(b"\\xff\\xd8\\xff", "image/jpeg")
`,
    { TERM: "xterm-kitty" },
  );

  const sent = [...output.matchAll(KITTY)];
  const [first, ...others] = sent.map(([, keys]) => keys);
  assertEquals(first, "a=T,f=100,q=2,c=10,m=1");
  assertEquals(others, others.map((_, at) => at === others.length - 1 ? "m=0" : "m=1"));
  assert(others.length > 1 && sent.every(([, , data = ""]) => data.length <= 4096), output);
  assertEquals(chunksOf(sent.map(([, , data]) => data).join("")), ["IHDR", "IDAT", "IEND"]);
  const rest = output.replace(KITTY, "");
  assertEquals(rest.match(/^Image: \/.*\.(?:png|jpg)$/gm)?.length, 5, output);
  // deno-lint-ignore no-control-regex -- no other sequence reaches the terminal
  assertEquals(rest.match(/[\x00-\x08\x0e-\x1f]/g), null, output);
});

Deno.test("ipybox run --images inline shows them to iTerm2 and the like", async () => {
  const output = await shown("show(png(400, 80))", { TERM_PROGRAM: "iTerm.app" });

  const [[, keys = "", data = ""] = [], ...others] = output.matchAll(ITERM);
  assertEquals(others.length, 0);
  const size = Uint8Array.fromBase64(data).length;
  assertEquals(keys, `inline=1;preserveAspectRatio=1;size=${size};width=40`);
  assertEquals(chunksOf(data), ["IHDR", "IDAT", "IEND"]);
});

Deno.test("ipybox run --images inline draws them in sixels, scaled, and none that is damaged", async () => {
  const output = await shown(
    `
def half(width, height, *, left, right):
    rows = b"".join(b"\\0" + left * (width // 2) + right * (width // 2) for _ in range(height))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0))
    return b"\\x89PNG\\r\\n\\x1a\\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
show(half(20, 7, left=b"\\xff\\0\\0\\xff", right=b"\\0\\0\\0\\0")) # red, and nothing, which is white
show(png(2000, 100))
show(png(100, 80)[:60] + b"\\0" * 40)
`,
    { TERM: "foot" },
  );

  const [small, large, ...others] = Array.from(output.matchAll(SIXELS), ([, sixels]) => sixels);
  assertEquals(others, []);
  const [, first = "", second = ""] =
    /^"1;1;20;7#0;2;(\d+;\d+;\d+)#1;2;(\d+;\d+;\d+)#/.exec(small ?? "") ?? [];
  assertEquals(new Set([first, second]), new Set(["100;0;0", "100;100;100"]));
  const red = first === "100;0;0" ? 0 : 1;
  const band = (full: string) => `#${red}!10${full}!10?$#${1 - red}!10?!10${full}$-`;
  assertEquals(small?.slice(small.indexOf(second) + second.length), band("~") + band("@"));
  assertMatch(large ?? "", /^"1;1;790;40#0;/);
  assertEquals(output.match(/^Image: /gm)?.length, 3, output);
});

Deno.test("ipybox run --images inline says once that a terminal shows none", async () => {
  const output = await shown(`show(png(4, 4)); show(png(4, 4)); ${FIGURE}`, {
    TERM: "xterm-256color",
  });

  assertEquals(output.match(/shown by their paths alone/g)?.length, 1, output);
  assertMatch(output, /^\[plotly figure: \/.*\.json\]\n/m); // no link
  assertEquals(output.match(/^Image: /gm)?.length, 2, output);
  assert(!output.includes("\x1b"), output);
  const both = await inThisProcess(["run", "-c", "1", "--json", "--images", "inline"]);
  assertEquals(both.code, 2);
  assertStringIncludes(both.stderr, "--images and --json cannot be combined");
});

Deno.test("ipybox links files of displays where the terminal shows links, and none of code's", async () => {
  const code = `
${FIGURE}
show(png(4, 4))
print("[plotly figure: /etc/passwd]")
print("\\x1b]8;;file:///etc/passwd\\x1b\\\\click\\x1b]8;;\\x1b\\\\")
`;
  const output = await shown(code, { NO_COLOR: "", TERM: "xterm-256color" }, []);

  const links = Array.from(output.matchAll(LINK), ([, path, text]) => [path, text]);
  assertEquals(links.length, 2, output);
  for (const [path, text] of links) assertEquals(path, text);
  assertMatch(output.replace(LINK, "($2)"), /^\[plotly figure: \(\/.*\.json\)\]\n/m);
  assertMatch(output.replace(LINK, "($2)"), /^Image: \(\/.*\.png\)\n/m);
  assertStringIncludes(output, "[plotly figure: /etc/passwd]\n");
  assertStringIncludes(output, "\\u001b]8;;file:///etc/passwd");

  const plain = await shown(code, { NO_COLOR: "", TERM: "dumb" }, []);
  assert(!plain.includes("\x1b]"), plain);
});

Deno.test("ipybox repl --images inline shows the pictures of a cell that fails, before its error", async () => {
  await using workspace = await TempFolder.create();
  await Deno.writeTextFile(`${workspace.path}/show.py`, SHOW);
  const script: readonly Typing[] = [
    ["In [1]: ", "%run -i show.py\r"],
    ["In [2]: ", "show(png(4, 4)); 1 / 0\r"],
    ["In [3]: ", "\x04"],
  ];

  const { output } = await ipyboxAtTerminal(
    ["repl", "--no-sandbox", "--images", "inline", "--workspace", workspace.path],
    script,
    { cwd: workspace.path, env: { TMUX: "", STY: "", TERM: "xterm-kitty" } },
  );

  const error = output.indexOf("ZeroDivisionError");
  const picture = output.search(KITTY);
  assert(picture !== -1 && error > picture, output);
  assertEquals(output.match(/^Image: /gm)?.length, 1, output);
});
