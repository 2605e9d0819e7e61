/**
 * What every MCP client is put through with `ipybox mcp`, and what must come of it.
 *
 * @module
 */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { rawServer } from "./mcp.ts";

/** A tool's end, as far as clients show it. */
export interface End {
  readonly isError: boolean;
  readonly text: string;
  /** The MIME types of the images in it. */
  readonly images: readonly string[];
}

/** What a client has seen. What it cannot do is left out. */
export interface Transcript {
  readonly tools: readonly string[];
  readonly registered: End;
  readonly composed: End;
  readonly image: End;
  readonly error: End;
  /** What the user was asked. */
  readonly asked?: readonly string[];
  /** What it was told while a cell ran. */
  readonly progress?: readonly string[];
  /** What a cell gives after one that was cancelled. */
  readonly kept?: End;
  readonly reset?: End;
  /** Whether a variable is there after the reset. */
  readonly gone?: End;
}

/** The server that clients register. */
export const REGISTRATION: Record<string, unknown> = {
  server_name: "sums",
  server_params: rawServer("sums"),
};

/** The cells that clients execute. */
export const CELLS = {
  composed: `
from mcptools.sums import echo, get_sum
total = get_sum.run(a=2, b=40)
print(echo.run(message=str(total).upper()))`,
  image: `
from base64 import b64decode
from IPython.display import Image, display
display(Image(b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")))`,
  error: `print("before")\n1 / 0`,
  // It is ended by its client, which has been told that it has begun.
  endless: `kept = 1\nprint("begun", flush=True)\nimport time\ntime.sleep(1000)`,
  kept: "kept",
  gone: `"kept" in globals()`,
} as const;

/** The name of the tool that executes them. */
export const CELL = "execute_ipython_cell";

/** Checks what a client has seen, all of which must be right. */
export function checkTranscript(transcript: Transcript): void {
  for (const name of ["search_tools", CELL, "register_mcp_server", "install_package", "reset"]) {
    assertEquals(transcript.tools.includes(name), true, name);
  }
  checkCalls(transcript);
}

/** Checks what a client that did not list the tools has seen of their calls. */
export function checkCalls(transcript: Omit<Transcript, "tools">): void {
  const { registered, composed, image, error, asked, progress, kept, reset, gone } = transcript;
  assertEquals(registered.isError, false, registered.text);
  assertStringIncludes(registered.text, "get_sum");
  assertEquals(composed.isError, false, composed.text);
  assertMatch(composed.text, /ECHO: THE SUM OF 2 AND 40 IS 42/i);
  assertEquals(image.isError, false, image.text);
  assertEquals(image.images, ["image/png"]);
  assertEquals(error.isError, false); // the tool did what it was asked for
  assertMatch(error.text, /before[^]*ZeroDivisionError: division by zero/);
  if (asked !== undefined) {
    assertEquals(asked.length, 3, asked.join("\n---\n"));
    assertStringIncludes(asked[0] ?? "", "raw_server.ts");
    assertStringIncludes(asked[1] ?? "", "sums.get-sum");
    assertStringIncludes(asked[2] ?? "", "sums.echo");
  }
  if (progress !== undefined) assertEquals(progress.includes("begun"), true, progress.join("\n"));
  if (kept !== undefined) assertEquals([kept.isError, kept.text], [false, "1"]);
  if (reset !== undefined) assertEquals(reset.isError, false, reset.text);
  if (gone !== undefined) assertEquals([gone.isError, gone.text], [false, "False"]);
}
