import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { CodeExecutionError } from "../../src/base/errors.ts";
import type { OutputChunk } from "../../src/kernel/spill_file.ts";
import { exists } from "../support/files.ts";
import { TestKernel, untilText } from "../support/kernel.ts";
import { testIf } from "../support/skip.ts";
import { rejection } from "../support/wait.ts";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

Deno.test("A kernel's output is whole", async (t) => {
  await using kernel = await TestKernel.start();
  const { client } = kernel;

  await t.step("100 trivial executions have their output", async () => {
    const lost: number[] = [];
    for (let i = 0; i < 100; i++) if (await kernel.text(`print(${i})`) !== `${i}`) lost.push(i);
    assertEquals(lost, []);
  });

  await t.step("what programs and C code write comes with its execution, and whole", async () => {
    const lost: number[] = [];
    for (let i = 0; i < 30; i++) {
      const text = await kernel.text(`import os\n_ = os.write(${1 + i % 2}, b"x" * 60000)`);
      if (text?.length !== 60_000) lost.push(i);
    }
    assertEquals(lost, []);
    assertEquals(await kernel.text("_ = os.system('echo a')"), "a");
    assertEquals(
      await kernel.text("_ = os.write(1, ('a' + '€' * 999).encode())"),
      "a" + "€".repeat(999),
    );
    const code = `import time
if os.fork() == 0:
    while not os.path.exists("over"): time.sleep(0.01)
    os.write(1, b"late")
    os._exit(0)`;
    assertEquals(await kernel.text(code), null);
    const next = `open("over", "w").close()\n_ = os.wait()`;
    assertEquals(await kernel.text(next), "late");
  });

  await t.step("chunks arrive when they are produced, from stdout and stderr apart", async () => {
    const code = `import os, sys, time
print("first", flush=True)
while not os.path.exists("seen"): time.sleep(0.01)
print("second", file=sys.stderr, flush=True)
3`;
    const chunks: OutputChunk[] = [];
    const execution = client.execute(code);
    for await (const chunk of execution) {
      chunks.push(chunk);
      // The code does not go on before.
      if (chunks.length === 1) await Deno.writeTextFile(`${kernel.workspace}/seen`, "");
    }
    // Python writes a line and its end one after the other: the kernel may send them so, too.
    const parts: OutputChunk[] = [];
    for (const chunk of chunks) {
      const last = parts.at(-1);
      if (last?.stream !== chunk.stream || chunk.isResult) parts.push(chunk);
      else parts.splice(-1, 1, { ...chunk, text: last.text + chunk.text });
    }
    assertEquals(parts, [
      { type: "chunk", stream: "stdout", text: "first\n" },
      { type: "chunk", stream: "stderr", text: "second\n" },
      { type: "chunk", stream: "stdout", isResult: true, text: "3" },
    ]);
    const { text, outputs } = await execution.result;
    assertEquals(text, "first\nsecond\n3");
    assertEquals(outputs, [
      { type: "stream", name: "stdout", text: "first\n" },
      { type: "stream", name: "stderr", text: "second\n" },
      { type: "execute_result", data: { "text/plain": "3" }, metadata: {} },
    ]);
  });

  await t.step("displays have their whole MIME bundles, in their last state", async () => {
    const { text, outputs } = await client.execute(`
from IPython.display import HTML, JSON, Latex, Markdown, display
handle = display(HTML("<b>old</b>"), display_id="one")
display(Markdown("*m*"), JSON({"a": [1]}), Latex("$x$"))
handle.update(HTML("<b>new</b>"))
display({"application/vnd.vega.v5+json": {"marks": []}, "text/plain": "a chart"}, raw=True)
`).result;
    const data = outputs.map((output) => output.type === "display_data" ? output.data : undefined);
    assertEquals(data[0]?.["text/html"], "<b>new</b>");
    assertEquals(data[1]?.["text/markdown"], "*m*");
    assertEquals(data[2]?.["application/json"], { a: [1] });
    assertEquals(data[3]?.["text/latex"], "$x$");
    assertEquals(data[4]?.["application/vnd.vega.v5+json"], { marks: [] });
    assertEquals(data.length, 5);
    assert(outputs[0]?.type === "display_data" && outputs[0].displayId === "one");
    const lines = (text ?? "").split("\n");
    assertEquals(lines.slice(1), ["*m*", '{"a":[1]}', "$x$", "a chart"]);
    const path = /^\[HTML: (.*\/images\/[0-9a-f]{8}\.html)\]$/.exec(lines[0] ?? "")?.[1] ?? "";
    assertMatch(await Deno.readTextFile(path), /<b>new<\/b>$/);
  });

  await t.step("clear_output() and progress bars leave the last state", async () => {
    const { text, outputs } = await client.execute(`
from IPython.display import clear_output
import sys
for i in range(3):
    clear_output(wait=True)
    print("round", i, flush=True)
for percent in (10, 50, 100):
    print(f"\\r{percent:3}%", end="", file=sys.stderr, flush=True)
`).result;
    assertEquals(text, "round 2\n100%");
    assertEquals(outputs[0], { type: "stream", name: "stdout", text: "round 2\n" });
  });

  await t.step("a bundle has every form that a value has", async () => {
    const { text, images, outputs } = await client.execute(`
import base64
PNG = base64.b64decode("${PNG}")

class Everything:
    def __repr__(self): return "everything"
    def _repr_html_(self): return "<table></table>"  # as of a DataFrame
    def _repr_markdown_(self): return "*m*"
    def _repr_latex_(self): return "$x$"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return PNG
    def _repr_jpeg_(self): return b"\\xff\\xd8\\xff"
    def _repr_json_(self): return {"a": [1, None, 0.5]}
    def _repr_mimebundle_(self, **kwargs):
        return {
            "application/vnd.plotly.v1+json": {"data": [], "layout": {}},
            "application/vnd.vegalite.v5+json": {"mark": "bar"},
        }

Everything()
`).result;
    assertEquals(text, "everything");
    assertEquals(images.map(({ path }) => path.split(".").at(-1)), ["png"]);
    assert(outputs[0]?.type === "execute_result");
    const { "image/png": png, ...data } = outputs[0].data;
    assertEquals(String(png).trim(), PNG);
    assertEquals(data, {
      "text/plain": "everything",
      "text/html": "<table></table>",
      "text/markdown": "*m*",
      "text/latex": "$x$",
      "image/svg+xml": "<svg/>",
      "image/jpeg": "/9j/",
      "application/json": { a: [1, null, 0.5] },
      "application/vnd.plotly.v1+json": { data: [], layout: {} },
      "application/vnd.vegalite.v5+json": { mark: "bar" },
    });
  });

  await t.step("an update of an earlier execution's display is an output", async () => {
    const { outputs } = await client.execute("handle.update(HTML('<b>later</b>'))").result;
    assert(outputs[0]?.type === "display_data");
    assertEquals(outputs[0].data["text/html"], "<b>later</b>");
  });

  await t.step("images of plots are files", async () => {
    await client.execute("import matplotlib.pyplot as plt").result; // the first on a machine says so
    const plot = "plt.plot([1, 2]); plt.show()\n";
    const one = await client.execute(`%matplotlib inline\n${plot}`).result;
    assertEquals(one.images.length, 1);
    const { path } = one.images[0]!;
    assertMatch(path, /images\/[0-9a-f]{8}\.png$/);
    assert(path.startsWith(`${kernel.workspace}/images/`));
    assertEquals((await Deno.readFile(path)).subarray(1, 4), new TextEncoder().encode("PNG"));
    assertEquals(one.text, null); // not `<Figure size 640x480 with 1 Axes>`
    const two = await client.execute(plot + plot).result;
    assertEquals(new Set(two.images.map(({ path }) => path)).size, 2);
  });

  await t.step("JPEG and SVG are image files too", async () => {
    const { images } = await client.execute(`
from IPython.display import SVG, Image
import base64
display(SVG("<svg xmlns='http://www.w3.org/2000/svg'/>"))
display({"image/jpeg": "/9j/"}, raw=True)
`).result;
    assertEquals(images.map(({ path }) => path.split(".").at(-1)), ["svg", "jpg"]);
    assertEquals(images.map(({ mimeType }) => mimeType), ["image/svg+xml", "image/jpeg"]);
    assertMatch(await Deno.readTextFile(images[0]!.path), /^<svg/);
  });

  await t.step("what only a page can show is one, even if its execution is cancelled", async () => {
    const code = `
from IPython.display import HTML, Audio, Video
open("film.mp4", "wb").write(b"film")
class Chart:
    def _repr_html_(self): return "<p>chart</p>"
print("before")
display(Chart(), Video("film.mp4", embed=True), Audio(data=[0.5, 0.1], rate=8000))
`;
    const { text, images, html } = await client.execute(code).result;
    const found = [...(text ?? "").matchAll(/^\[(\w+): (.*\.html)\]$/gm)];
    assertEquals(found.map(([, kind]) => kind), ["Chart", "Video", "Audio"]);
    assertEquals(images, []);
    const pages = await Promise.all(found.map(([, , path = ""]) => Deno.readTextFile(path)));
    for (const [index, part] of ["<p>chart</p>", "data:video/mp4", "data:audio/wav"].entries()) {
      assertStringIncludes(pages[index] ?? "", part);
      assertStringIncludes(html[index] ?? "", part);
    }

    const cancelled = client.execute(`${code}import time\nprint("shown")\ntime.sleep(600)`);
    let chunks = "";
    const error = await rejection((async () => {
      for await (const chunk of cancelled) {
        chunks += chunk.text;
        if (chunks.includes("shown")) void cancelled.cancel(new Error("enough"));
      }
    })());
    assertEquals(String(error), "Error: enough");
    const [, path = ""] = /\[Chart: (.*)\]/.exec(chunks) ?? [];
    assertStringIncludes(await Deno.readTextFile(path), "<p>chart</p>");
  });

  await t.step("text and images made before an error are the error's", async () => {
    const error = await rejection(
      client.execute(`print("before")\ndisplay({"image/png": "${PNG}"}, raw=True)\n1/0`).result,
    );
    assertInstanceOf(error, CodeExecutionError);
    assertEquals(error.text, "before");
    assertEquals(error.images.length, 1);
    assertEquals((await Deno.stat(error.images[0]!.path)).isFile, true);
  });

  await t.step("an image that is none is told", async () => {
    const { text, images } = await client.execute(
      "display({'image/png': 'not base64!', 'text/plain': 'x'}, raw=True)",
    ).result;
    assertEquals(images, []);
    assertMatch(text ?? "", /An image could not be saved/);
  });

  await t.step("50 000 lines, more than the limit of a text", async () => {
    const { text } = await client.execute("for i in range(50_000): print(f'{i:030}')").result;
    const path = /the full text is in (\S+)\]/.exec(text ?? "")?.[1];
    assert(text !== null && text.length < 1.1 * 1024 ** 2);
    const lines = Array.from({ length: 50_000 }, (_, i) => `${i}\n`.padStart(31, "0"));
    assert(text.startsWith(lines.slice(0, 3).join("")));
    assert(`${text}\n`.endsWith(lines.slice(-2).join("")));
    assertEquals(await Deno.readTextFile(path ?? ""), lines.join(""));
  });

  await t.step("3000 messages, as fast as the kernel can send them", async () => {
    const { text } = await client.execute(`
kernel = get_ipython().kernel
for i in range(3000):
    kernel.send_response(kernel.iopub_socket, "stream", {"name": "stdout", "text": f"{i}\\n"})
`).result;
    assertEquals(text, Array.from({ length: 3000 }, (_, i) => `${i}`).join("\n"));
  });

  await t.step("70 MB at once, more than a WebSocket message may hold", async () => {
    const { text } = await client.execute("print('y\\n' * 35_000_000)").result;
    const path = /the full text is in (\S+)\]/.exec(text ?? "")?.[1];
    assertEquals((await Deno.stat(path ?? "")).size, 70_000_001);
  });

  await t.step("code waits that prints faster than that can be sent", async () => {
    await client.execute(`
import sys
most = 0
for i in range(50):
    print(str(i) + "x" * 1_000_000)
    with sys.stdout._buffer_lock:
        most = max(most, sum(buffer.tell() for buffer in sys.stdout._buffers.values()))
`).result;
    const most = Number(await kernel.text("most"));
    assert(most < 20_000_000, `${most} characters have waited`);
  });

  await t.step("a large result keeps its start and its end", async () => {
    const { text, outputs } = await client.execute("'a' * 3_000_000 + 'z'").result;
    assert(text?.startsWith("'aaa") && text.endsWith("az'") && text.length < 1.1 * 1024 ** 2);
    assertEquals(outputs[0]?.type, "execute_result");
    const path = /the full text is in (\S+)\]/.exec(text ?? "")?.[1];
    assert(path === undefined || (await Deno.stat(path)).size >= 3_000_003);
  });

  await client.execute("a = 5").result;

  for (
    const [name, code, text] of [
      [
        "a result",
        "'x' * 70_000_000",
        /^'x+\n[^]*x'\n\[ipybox: 658\d+ of 70000002 characters .*\]$/,
      ],
      [
        "an image",
        "display({'image/png': 'A' * 70_000_000, 'text/plain': '<Figure>'}, raw=True)",
        /^<Figure>\n\[ipybox: image\/png of 70000000 characters was omitted: .*to a file/,
      ],
      [
        "JSON",
        "display({'application/json': ['x' * 999] * 70_000}, raw=True)",
        /^\[ipybox: application\/json of \d+ characters was omitted/,
      ],
    ] as const
  ) {
    await t.step(`${name} that is too large for a message does not cost the kernel`, async () => {
      const shown = (await client.execute(code).result).text ?? "";
      assert(text.test(shown), shown.slice(-300));
      assertEquals(await kernel.text("a"), "5");
    });
  }

  await t.step("an exception that is too large for a message does not either", async () => {
    // IPython takes seconds to format one that exceeds the true limit.
    const lower = "from ipybox_runtime.kernel import messages; messages._LARGEST_MESSAGE = 9 << 20";
    await client.execute(lower).result;
    const error = await rejection(client.execute("raise ValueError('x' * 6_000_000)").result);
    assertInstanceOf(error, CodeExecutionError);
    assertEquals(error.ename, "ValueError");
    assertMatch(error.evalue, /characters were omitted: the limit per message is 60 MiB/);
    assertEquals(await kernel.text("a"), "5");
  });

  await client.execute("import asyncio, os, sys, threading, time").result;

  for (
    const [name, start] of [
      ["a thread", "threading.Timer(0.1, late).start()"],
      ["a task", "_ = asyncio.get_running_loop().call_later(0.1, late)"],
    ] as const
  ) {
    await t.step(`what ${name} prints after its execution goes to the next`, async () => {
      const done = `${kernel.workspace}/done-${name.replace(" ", "-")}`;
      await client.execute(
        `def late():\n  print('late', flush=True)\n  open('${done}', 'w').close()\n${start}`,
      ).result;
      while (!await exists(done)) await new Promise((resolve) => setTimeout(resolve, 10));
      assertEquals(await kernel.text("1"), "late\n1");
      assertEquals(await kernel.text("2"), "2");
    });
  }

  await t.step("a thread that prints while the next runs", async () => {
    await client.execute(`go, done = threading.Event(), threading.Event()
def work():
    go.wait()
    print("late", flush=True)
    done.set()
threading.Thread(target=work).start()`).result;
    assertEquals(await kernel.text("go.set(); _ = done.wait(); 3"), "late\n3");
  });

  for (
    const [name, code, shown] of [
      ["help", "print?", /^Signature: +print\(\*args[^]*Prints the values to a stream/],
      ["source", "def f():\n    return 'here'\nf??", /Signature: +f\(\)[^]*return 'here'/],
      ["a magic's", "%quickref", /Quick Reference Card/],
    ] as const
  ) {
    await t.step(`what IPython shows in a pager is a display: ${name}`, async () => {
      const execution = client.execute(`print('before')\n${code}`);
      const chunks = await Array.fromAsync(execution);
      const { text: all, outputs } = await execution.result;
      const text = all ?? "";
      assert(text.startsWith("before\n"), text);
      assertMatch(text.slice("before\n".length), shown);
      assertEquals(outputs.map(({ type }) => type), ["stream", "display_data"]);
      assertEquals(chunks.map((chunk) => chunk.text).join("").trim(), text);
    });
  }

  await t.step("the text for a next cell, which there is not, is left out", async () => {
    await Deno.writeTextFile(`${kernel.workspace}/loaded.py`, "loaded = 1\n");
    const { text, outputs } = await client.execute("%load loaded.py").result;
    assertEquals([text, outputs], [null, []]);
  });
});

testIf(Deno.build.os === "linux", "only Linux says how much memory a process has taken", {
  name:
    "what a host does not take waits in the kernel: nothing is lost, and the gateway stays small",
  fn: async () => {
    await using kernel = await TestKernel.start();
    const execution = kernel.client.execute(`
kernel = get_ipython().kernel
for i in range(3000):
    kernel.send_response(kernel.iopub_socket, "stream", {"name": "stdout", "text": "x" * 60_000})
`);
    await untilText(execution, "x");
    // This thread takes nothing.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000);

    const { text } = await execution.result;
    const path = /the full text is in (\S+)\]/.exec(text ?? "")?.[1];
    assertEquals((await Deno.stat(path ?? "")).size, 180_000_000);
    const status = await kernel.text(
      "import os; print(open(f'/proc/{os.getppid()}/status').read())",
    );
    assertStringIncludes(status ?? "", "Name:\tpython");
    const peakMiB = Number(/VmHWM:\s+(\d+)/.exec(status ?? "")?.[1]) / 1024;
    assert(peakMiB < 220, `${peakMiB} MiB`);
  },
});

Deno.test("With a raised limit the whole output is in memory", async () => {
  await using kernel = await TestKernel.start({ maxOutputBytes: 100 * 1024 ** 2 });
  const code = "for i in range(20_000): print('x' * 99)";
  assertEquals((await kernel.text(code))?.length, 1_999_999);
});
