import { assert, assertEquals, assertMatch } from "@std/assert";
import { McpHost } from "../support/mcp_client.ts";
import { RAW, workspaceWithServer } from "../support/mcp_workspace.ts";

const CELL = "execute_ipython_cell";
/** A fifth of the cells of a `deno task soak`, with five times as much in each. */
const SCALE = Deno.env.has("IPYBOX_SOAK") ? 1 : 5;
const SIZE = 200_000 * SCALE;
/**
 * Keeping the text of the cells in between would be 80 MB, and their images 20 MB. When the heap is
 * collected differs by 50 MB.
 */
const MAX_GROWTH_BYTES = 75e6;

const PREPARE = `${RAW}
import os, struct, zlib
from IPython.display import Image, display
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def show():
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 720, 720, 8, 0, 0, 0, 0))
    pixels = zlib.compress(b"".join(b"\\0" + os.urandom(720) for _ in range(720)), 0)
    display(Image(b"\\x89PNG\\r\\n\\x1a\\n" + header + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")))`;

Deno.test("ipybox mcp needs no more memory after many cells", async () => {
  await using workspace = await workspaceWithServer();
  await using host = await McpHost.start({
    args: ["--workspace", workspace.path, "--approve", "allow", "--no-sandbox"],
  });
  await host.execute(PREPARE);

  await leastMemory(host, 300 / SCALE); // caches and the heap have their size by then
  const warm = await leastMemory(host, 200 / SCALE);
  await leastMemory(host, 300 / SCALE);
  const end = await leastMemory(host, 200 / SCALE);

  assert(end - warm < MAX_GROWTH_BYTES, `from ${warm} to ${end} bytes`);
});

/** Runs cells of all kinds, and gives the least memory meanwhile: what is above it is garbage. */
async function leastMemory(host: McpHost, cells: number): Promise<number> {
  let least = Infinity;
  for (let i = 0; i < cells; i++) {
    await runOne(host, i);
    const status = await Deno.readTextFile(`/proc/${host.pid}/status`);
    least = Math.min(least, Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024);
  }
  return least;
}

async function runOne(host: McpHost, i: number): Promise<void> {
  const cell = (code: string) => host.call(CELL, { code }, { onProgress() {} });
  switch (i % 10) {
    case 0: {
      const { content } = await cell("show()");
      assertEquals(content.filter(({ type }) => type === "image").length, 1);
      return;
    }
    case 3: {
      const { text } = await cell(`print("x" * ${SIZE})\nraise ValueError("y" * ${SIZE})`);
      assertMatch(text, /ValueError/);
      return;
    }
    case 6: {
      const { text } = await cell(
        `raw.run_sync("count", {"text": "z" * ${SIZE}}).text.isdigit()`,
      );
      assertEquals(text, "True");
      return;
    }
  }
  const { text } = await cell(`print("x" * ${SIZE})\n"end of ${i}"`);
  assertMatch(text, new RegExp(`'end of ${i}'$`, "m"));
}
