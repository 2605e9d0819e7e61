import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { basename } from "node:path";
import { imageSize } from "../../src/mcp_server/images.ts";
import { McpHost } from "../support/mcp_client.ts";
import { workspaceWithServer } from "../support/mcp_workspace.ts";
import { stepsOf } from "../support/steps.ts";

const FULL_OUTPUT = /\[Full output: (\S+) \((\S+)\)\]/;
/** The line of an image, with its path and whether it is shown. */
const IMAGE = /^- \[\w+\]\(([^)]+)\)(.*)$/gm;

/** Draws a PNG without a library. */
const DRAW = `
import random, struct, zlib
from IPython.display import Image, display

def png(width, height, noise=True):
    line = lambda: b"\\0" + (random.randbytes(width * 3) if noise else bytes(width * 3))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    body = zlib.compress(b"".join(line() for _ in range(height)), 1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
`;

Deno.test("execute_ipython_cell reports how a cell ended", async (t) => {
  await using workspace = await workspaceWithServer();
  await using host = await McpHost.start({
    kind: "2.x 2026-07-28",
    args: ["--workspace", workspace.path],
  });
  const step = stepsOf(t);
  const execute = (code: string, options: Record<string, unknown> = {}) =>
    host.call("execute_ipython_cell", { code, ...options });

  await step("with a module missing, and the tool that installs it", async () => {
    const { text } = await execute("import no_such_module");
    const advice = '[ipybox] To install it: install_package with package_name "no_such_module"';
    assertEquals(text.split("\n").at(-1), advice);
  });

  await step("with what pip cannot install, and the tool that installs it", async () => {
    const { text } = await execute("%pip install no-such-package");
    const advice = '[ipybox] To install it: install_package with package_name "no-such-package"';
    assertStringIncludes(text, advice);
  });

  await step("with a server missing, and the tool that lists those that are there", async () => {
    const { text } = await execute("from mcptools.github import search");
    const advice = '[ipybox] No Python API of a server "github" here: see search_tools';
    assertEquals(text.split("\n").at(-1), advice);
  });

  await step("with the death of its kernel", async () => {
    const { isError, text } = await execute("import os; os._exit(7)");
    assertEquals(isError, true);
    assertMatch(text, /died[^]*\nThe next cell runs in a fresh kernel: variables are lost$/);
    assertEquals((await execute("1 + 1")).text, "2");
  });

  await step("with the end that a reset made to it", async () => {
    const begun = Promise.withResolvers<void>();
    const cell = host.call("execute_ipython_cell", {
      code: "print('begun', flush=True)\nimport time; time.sleep(60)",
    }, {
      onProgress: ({ message }) => {
        if (message === "begun") begun.resolve();
      },
    });
    await begun.promise;
    await host.call("reset");
    const { isError, text } = await cell;
    assertEquals(isError, true);
    assertMatch(
      text,
      /^begun\n+The cell was cancelled\. The kernel was restarted: variables are lost$/,
    );
  });

  await step("with head and tail of a long text, and the whole in a file", async () => {
    const { text } = await execute("print('a' * 5000 + 'b' * 5000)", {
      max_output_chars: 1000,
    });
    assertMatch(
      text,
      /^a{500}\n\n\[Output truncated: [^\n]* 9000 of 10000 characters omitted here/,
    );
    const whole = "a".repeat(5000) + "b".repeat(5000);
    const [, path = "", uri = ""] = FULL_OUTPUT.exec(text) ?? [];
    assertEquals(await Deno.readTextFile(path), whole);
    assertEquals(await host.read(uri), whole);
  });

  await step("with exact counts also where the kernel's client has left text out", async () => {
    const { text } = await execute("print('x' * 3_000_000)");
    assertStringIncludes(text, "2995001 of 3000001 characters omitted here");
    assertEquals((await Deno.stat(FULL_OUTPUT.exec(text)?.[1] ?? "")).size, 3_000_001);
  });

  await step("with images that are scaled down, in full size as resources", async () => {
    const { content, text } = await execute(`${DRAW}
display(Image(png(40, 30)))
display(Image(png(2400, 1200)))
display(Image(png(9000, 9000, noise=False)))`);
    const images = content.filter((block) => block.type === "image").map(({ mimeType, data }) => {
      const bytes = Uint8Array.fromBase64(String(data));
      return { mimeType, bytes: bytes.length, size: imageSize(bytes) };
    });
    assertEquals(images.length, 2);
    assertEquals(images[0]?.size, { width: 40, height: 30 });
    const { width = 0, height = 0 } = images[1]?.size ?? {};
    assert(
      width >= 256 && width <= 1568 && Math.abs(width - 2 * height) <= 1,
      `${width} x ${height}`,
    );
    for (const { bytes } of images) assert(bytes <= 2 ** 20, `${bytes} bytes`);
    const listed = [...text.matchAll(IMAGE)];
    assertEquals(listed.map(([, , note]) => note), ["", "", " (not shown here)"]);
    const path = listed[1]?.[1] ?? "";
    const whole = Uint8Array.fromBase64(await host.read(`ipybox://images/${basename(path)}`));
    assertEquals(imageSize(whole), { width: 2400, height: 1200 });
    assertEquals(whole, await Deno.readFile(path));
    assertEquals(content.map(({ type }) => type), ["text", "image", "image"]);
  });

  await step("with many images in bounds", async () => {
    const { content, text } = await execute(`${DRAW}
for _ in range(12): display(Image(png(900, 300)))`);
    const images = content.filter((block) => block.type === "image");
    const bytes = images.reduce((sum, { data }) => sum + String(data).length * 3 / 4, 0);
    assertEquals(text.match(IMAGE)?.length, 12);
    assert(images.length > 2 && images.length <= 8 && bytes <= 3 * 2 ** 20, `${bytes} bytes`);
  });

  await step("without following a link that the code has put in an image's place", async () => {
    const { content } = await execute(`${DRAW}
import glob, os, threading, time
def swap():
    known = set(glob.glob("images/*.png"))
    while True:
        for path in set(glob.glob("images/*.png")) - known:
            try: os.remove(path); os.symlink("/etc/passwd", path)
            except OSError: pass
            return
thread = threading.Thread(target=swap, daemon=True); thread.start()
display(Image(png(2000, 300)))`);
    const after = await execute("thread.join(30); print(thread.is_alive())"); // it becomes a file now
    assertStringIncludes(JSON.stringify(after.content), "False");
    assert(!JSON.stringify(content).includes(btoa("root:")), "a link was followed");
  });
});
