import { assertEquals, assertMatch } from "@std/assert";
import { cellsOf, fileLink, pixelsFor, protocolOf } from "./pictures.ts";

Deno.test("a terminal's protocol for pictures is known by its variables", () => {
  const cases: readonly (readonly [Record<string, string>, ReturnType<typeof protocolOf>])[] = [
    [{ TERM: "xterm-kitty" }, "kitty"],
    [{ TERM: "xterm-256color", KITTY_WINDOW_ID: "1" }, "kitty"],
    [{ TERM: "xterm-ghostty", TERM_PROGRAM: "ghostty" }, "kitty"],
    [{ TERM: "xterm-256color", TERM_PROGRAM: "iTerm.app" }, "iTerm2"],
    [{ TERM: "xterm-256color", LC_TERMINAL: "iTerm2" }, "iTerm2"],
    [{ TERM: "xterm-256color", TERM_PROGRAM: "WezTerm" }, "iTerm2"],
    // A terminal that was started from one of kitty.
    [{ TERM: "xterm-256color", TERM_PROGRAM: "mintty", KITTY_WINDOW_ID: "1" }, "iTerm2"],
    [{ TERM: "foot" }, "sixel"],
    [{ TERM: "xterm-256color", KONSOLE_VERSION: "230804" }, "sixel"],
    [{ TERM: "xterm-256color", KONSOLE_VERSION: "210401" }, undefined],
    [{ TERM: "xterm-256color", WT_SESSION: "5c3b" }, "sixel"],
    [{ TERM: "tmux-256color", KITTY_WINDOW_ID: "1" }, undefined],
    [{ TERM: "xterm-kitty", TMUX: "/tmp/tmux-0/default,1,0" }, undefined],
    [{ TERM: "screen.xterm-256color", LC_TERMINAL: "iTerm2" }, undefined],
    [{ TERM: "dumb", TERM_PROGRAM: "iTerm.app" }, undefined],
    [{ TERM: "xterm-256color" }, undefined],
    [{}, undefined],
  ];
  for (const [env, protocol] of cases) {
    assertEquals(protocolOf((name) => env[name]), protocol, JSON.stringify(env));
  }
});

Deno.test("a picture of any size fits on the screen", () => {
  const screen = { columns: 80, rows: 24 };
  assertEquals(cellsOf({ width: 640, height: 480 }, screen), { side: "height", cells: 22 });
  assertEquals(cellsOf({ width: 400, height: 200 }, screen), { side: "width", cells: 40 });
  assertEquals(cellsOf({ width: 5000, height: 200 }, screen), { side: "width", cells: 79 });
  assertEquals(cellsOf({ width: 1, height: 1 }, screen), { side: "width", cells: 1 });
  assertEquals(cellsOf({ width: 1, height: 10_000 }, screen), { side: "height", cells: 22 });
  assertEquals(cellsOf({ width: 9, height: 9 }, { columns: 1, rows: 1 }).cells, 1);
  assertEquals(pixelsFor({ width: 640, height: 480 }, screen), { width: 587, height: 440 });
  assertEquals(pixelsFor({ width: 400, height: 200 }, screen), { width: 400, height: 200 });
  assertEquals(pixelsFor({ width: 5000, height: 2 }, screen), { width: 790, height: 1 });
});

Deno.test("a link to a file has nothing of its path but text, and none is made without need", () => {
  const path = "/a b/\x1b\\ü?#%.png";
  const text = "/a b/\\u001b\\ü?#%.png";
  assertEquals(fileLink(path, { links: false }), text);
  const [, host, url, shown] =
    // deno-lint-ignore no-control-regex -- what makes a link
    /^\x1b\]8;;file:\/\/([^\/]*)(\S*)\x1b\\(.*)\x1b\]8;;\x1b\\$/.exec(
      fileLink(path, { links: true }),
    ) ?? [];
  assertEquals([url, shown], ["/a%20b/%1B%5C%C3%BC%3F%23%25.png", text]);
  assertMatch(host ?? "", /^[\w.%-]+$/);
});
