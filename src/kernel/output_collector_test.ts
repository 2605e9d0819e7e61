import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { join } from "node:path";
import { NO_OUTPUT } from "../base/errors.ts";
import { ArtifactFolder } from "../files/artifact_folder.ts";
import { type CollectorOptions, OutputCollector } from "./output_collector.ts";
import type { MimeBundle } from "./outputs.ts";
import { cpuMs } from "../../tests/support/stalls.ts";

const UPDATE = "update_display_data";

/** A collector with a folder of its own, which disposing removes. */
class TestCollector extends OutputCollector {
  readonly folder: string;
  readonly chunks: string[];

  constructor(options: Partial<CollectorOptions> = {}) {
    const folder = Deno.makeTempDirSync();
    const images = new ArtifactFolder(join(folder, "images"));
    const chunks: string[] = [];
    super({
      maxOutputBytes: 1000,
      images,
      onText: (stream, text) => void chunks.push(`${stream}:${text}`),
      ...options,
    });
    this.folder = folder;
    this.chunks = chunks;
  }

  stream(text: string, name = "stdout"): void {
    this.message("stream", { name, text });
  }

  display(data: MimeBundle, displayId?: string, type = "display_data"): void {
    const transient = displayId === undefined ? {} : { display_id: displayId };
    this.message(type, { data, metadata: {}, transient });
  }

  message(type: string, content: Record<string, unknown>): void {
    this.add({ channel: "iopub", type, parentId: "1", parentSession: "1", content });
  }

  get text(): string | null {
    return this.partial().text;
  }

  spilled(): string {
    const path = /the full text is in (\S+)\]/.exec(this.text ?? "")?.[1];
    return Deno.readTextFileSync(path ?? "no file was named");
  }

  end(): void {
    super[Symbol.dispose]();
  }

  override [Symbol.dispose](): void {
    this.end();
    Deno.removeSync(this.folder, { recursive: true });
  }
}

Deno.test("OutputCollector keeps streams apart and merges neighbours", () => {
  using collector = new TestCollector();
  collector.stream("a");
  collector.stream("b\n");
  collector.stream("c\n", "stderr");
  collector.stream("d\n");
  assertEquals(collector.partial(), {
    text: "ab\nc\nd",
    images: [],
    html: [],
    outputs: [
      { type: "stream", name: "stdout", text: "ab\n" },
      { type: "stream", name: "stderr", text: "c\n" },
      { type: "stream", name: "stdout", text: "d\n" },
    ],
  });
});

Deno.test("OutputCollector ends a progress bar before text of the other stream", () => {
  using collector = new TestCollector();
  for (const bar of ["  0%", "100%"]) collector.stream(`\r${bar}`, "stderr");
  collector.stream("done\n");
  collector.stream("\n", "stderr"); // is sent later
  collector.stream("a");
  collector.stream("b\n", "stderr");
  collector.stream("more\n");
  assertEquals(collector.text, "100%\ndone\nab\nmore");
});

Deno.test("OutputCollector shows nested bars and tables as a screen would, and the gap's note", () => {
  using collector = new TestCollector({ maxOutputBytes: 200 });
  collector.stream("outer 0\n\rinner 0\x1b[A\router 1\n\rinner 1\n");
  assertEquals(collector.text, "outer 1\ninner 1");
  for (let i = 0; i < 100; i++) collector.stream(`a line\n\x1b[A\x1b[A\r${i}\n`);
  assertMatch(collector.text ?? "", /\[ipybox: .* of text omitted here; .*\]\n/);
});

Deno.test("OutputCollector gives chunks that join to the text", () => {
  using collector = new TestCollector();
  collector.stream("a");
  collector.display({ "text/plain": "1" });
  collector.display({ "application/javascript": "f()" });
  collector.display({ "text/plain": ["2\n", "3"] }, undefined, "execute_result");
  collector.stream("b");
  assertEquals(collector.chunks, ["stdout:a", "stdout:\n1", "result:\n2\n3", "stdout:\nb"]);
  assertEquals(collector.text, "a\n1\n2\n3\nb");
});

Deno.test("OutputCollector joins the lines of a text, and leaves lists of JSON as they are", () => {
  using collector = new TestCollector();
  const data = { "text/plain": ["a", "b"], "text/html": ["<p>", "c"], "application/json": ["d"] };
  collector.message("display_data", { data, metadata: { tags: ["e", "f"] } });
  const [output] = collector.partial().outputs;
  assertEquals(output?.type === "display_data" && output.metadata, { tags: ["e", "f"] });
  assertEquals(output?.type === "display_data" && output.data, {
    "text/plain": "ab",
    "text/html": "<p>c",
    "application/json": ["d"],
  });
});

Deno.test("OutputCollector leaves out blank edges, and no indentation: tables stay in line", () => {
  using collector = new TestCollector();
  collector.stream(" \n\t\r\n");
  collector.display({ "text/plain": "   a\n0  1" }, undefined, "execute_result");
  collector.stream(" \n\n");
  assertEquals(collector.text, "   a\n0  1");

  using blank = new TestCollector();
  blank.stream("  \n ");
  assertEquals(blank.text, "");
});

Deno.test("OutputCollector shows displays in their last state", () => {
  using collector = new TestCollector();
  collector.display({ "text/plain": "old", "image/svg+xml": "<svg>1" }, "x");
  collector.stream("between\n");
  const before = collector.partial().images;
  collector.display({ "text/plain": "new", "image/svg+xml": "<svg>2" }, "x", "update_display_data");
  const { text, images, outputs } = collector.partial();
  assertEquals(text, "new\nbetween");
  assertEquals(outputs.length, 2);
  assertEquals(images.length, 1);
  assertEquals(Deno.readTextFileSync(images[0]!.path), "<svg>2");
  assert(!exists(before[0]!.path), "the old state's file is left behind");
  collector.display({ "text/plain": "unknown" }, "y", "update_display_data");
  assertEquals(collector.text, "new\nbetween\nunknown");
});

Deno.test("OutputCollector keeps head and tail within the limit, and the whole in a file", () => {
  for (const pieceLength of [1, 7, 333, 5_000, 200_000]) {
    using collector = new TestCollector({ maxOutputBytes: 10_000 });
    const whole = Array.from({ length: 12_000 }, (_, i) => `${i} `).join("");
    for (let at = 0; at < whole.length; at += pieceLength) {
      collector.stream(whole.slice(at, at + pieceLength));
    }
    const { text, outputs } = collector.partial();
    assert(text !== null && text.length <= 10_200 && text.length > 9_000, `${text?.length}`);
    assert(text.startsWith("0 1 2 ") && text.endsWith(" 11999"));
    const [head = "", note = "", tail = ""] = text.split(/\n(\[ipybox: .*\])\n/);
    assert(whole.startsWith(head) && whole.trimEnd().endsWith(tail));
    assertMatch(note, /KiB of 59.5 KiB of text omitted here; the full text is in/);
    assertEquals(collector.spilled(), whole);
    assertEquals(outputs.length, 1);
  }
});

Deno.test("OutputCollector keeps displays in a flood of text", () => {
  using collector = new TestCollector({ maxOutputBytes: 10_000 });
  for (let i = 0; i < 100; i++) {
    collector.stream(`${i}`.repeat(1000));
    if (i % 10 === 0) collector.display({ "text/plain": `display ${i}`, "text/html": `<b>${i}` });
  }
  const { text, outputs } = collector.partial();
  assertEquals(outputs.filter(({ type }) => type === "display_data").length, 10);
  assert(text !== null && text.length < 11_000);
  assert(collector.spilled().includes("display 50\n"));
});

Deno.test("OutputCollector bounds what alternating streams take", () => {
  using collector = new TestCollector({ maxOutputBytes: 10_000 });
  for (let i = 0; i < 20_000; i++) collector.stream("x", i % 2 === 0 ? "stdout" : "stderr");
  assert(collector.partial().outputs.length < 400);
  assertEquals(collector.spilled(), "x".repeat(20_000));
});

Deno.test("OutputCollector cuts a large result in its middle", () => {
  using collector = new TestCollector({ maxOutputBytes: 10_000 });
  collector.stream("before\n");
  collector.display({ "text/plain": "a".repeat(50_000) + "z" }, undefined, "execute_result");
  collector.stream("x".repeat(20_000));
  const { text, outputs } = collector.partial();
  assert(text?.startsWith("before\n"));
  const result = outputs.find(({ type }) => type === "execute_result");
  assert(result?.type === "execute_result");
  assertMatch(`${result.data["text/plain"]}`, /^a+\n\[ipybox: .* omitted here\]\na+z$/);
  assertEquals(collector.spilled(), `before\n${"a".repeat(50_000)}z\n${"x".repeat(20_000)}`);
});

Deno.test("OutputCollector reports files that cannot be written", () => {
  const folder = Deno.makeTempDirSync();
  const file = join(folder, "file");
  Deno.writeTextFileSync(file, "");
  const nowhere = new ArtifactFolder(join(file, "images"));
  using collector = new TestCollector({ images: nowhere });
  collector.display({ "image/png": "AAAA" });
  collector.stream("x".repeat(3000));
  const { text, images } = collector.partial();
  assertEquals(images, []);
  assertMatch(text ?? "", /An image could not be saved: /);
  assertMatch(text ?? "", /the full text could not be saved: /);
  Deno.removeSync(folder, { recursive: true });
});

Deno.test("OutputCollector bounds the data of displays", () => {
  using collector = new TestCollector();
  const html = "<".repeat(50 * 1024 ** 2);
  for (let i = 0; i < 4; i++) collector.display({ "text/plain": `${i}`, "text/html": html });
  const { text, outputs } = collector.partial();
  assertEquals(
    outputs.filter((output) => "data" in output && "text/html" in output.data).length,
    2,
  );
  assertMatch(text ?? "", /Some displays and errors were omitted/);
  assertMatch(text ?? "", /^0\n1\n[^]*\n2\n3$/); // the text of all of them
});

Deno.test("OutputCollector counts all that it keeps in one budget", () => {
  using collector = new TestCollector();
  const huge = "m".repeat(2 ** 20);
  for (let i = 0; i < 100; i++) {
    collector.message("display_data", { data: {}, metadata: { x: huge + i }, transient: {} });
    collector.display({}, huge + i);
    collector.message("error", { ename: huge + i, evalue: huge + i, traceback: [huge + i] });
  }
  const { outputs } = collector.partial();
  assertEquals(outputs.filter((output) => "metadata" in output && "x" in output.metadata), []);
  assert(JSON.stringify(outputs).length < 128 * 2 ** 20);
  for (let i = 0; i < 12_000; i++) collector.display({ "text/html": "<b>", "text/plain": `${i}` });
  assert(collector.partial().outputs.length <= 10_010);
  assertMatch(collector.text ?? "", /11999$/);
});

Deno.test("OutputCollector gains no room by updates that do not fit", () => {
  using collector = new TestCollector({ maxOutputBytes: 2 ** 20 });
  collector.display({ "text/html": "" }, "x");
  const count = () =>
    collector.partial().outputs.filter((output) => "data" in output && output.data["text/html"])
      .length;
  const fits = (size: number) => {
    const before = count();
    collector.display({ "text/html": "a".repeat(size) });
    return count() > before;
  };
  for (let size = 2 ** 25; size > 2 ** 8; size /= 2) while (fits(size));
  const update = { "text/plain": "b".repeat(2 ** 18) };
  for (let i = 0; i < 100; i++) collector.display(update, "x", UPDATE);
  assert(!fits(2 ** 16));
});

Deno.test("OutputCollector has the objects of displays weigh what they take, not their JSON", () => {
  using collector = new TestCollector();
  const value = JSON.parse(`[${"[],".repeat(200_000)}1]`);
  for (let i = 0; i < 50; i++) collector.display({ "application/json": value });
  const kept = collector.partial().outputs.filter((output) =>
    "data" in output && "application/json" in output.data
  );
  assert(kept.length > 5 && kept.length < 15, String(kept.length));
});

Deno.test("OutputCollector updates a display that is shown 40,000 times in no time", () => {
  using collector = new TestCollector();
  const begin = cpuMs();
  for (let i = 0; i < 40_000; i++) collector.display({ "text/plain": "0" }, "x");
  for (let i = 0; i < 10_000; i++) {
    collector.display({ "text/plain": `${i}` }, "x", "update_display_data");
  }
  const { outputs } = collector.partial();
  assert(cpuMs() - begin < 5000, `${cpuMs() - begin} ms`);
  const shown = outputs.filter((output) => output.type === "display_data");
  assertEquals(new Set(shown.map(({ data }) => data["text/plain"])), new Set(["9999"]));
});

Deno.test("OutputCollector keeps within the limit what an update shows many times", () => {
  const long = (index: number) => "z".repeat(10_000) + index;
  const update = (collector: TestCollector) => {
    for (let i = 0; i < 5; i++) {
      collector.display({ "text/plain": long(i) }, "x", "update_display_data");
    }
  };
  const check = (collector: TestCollector) => {
    const { text, outputs } = collector.partial();
    assert((text ?? "").length < 31_000, `${text?.length}`);
    assertMatch(text ?? "", /omitted here/);
    const shown = outputs.filter((output) => output.type === "display_data");
    assertEquals(new Set(shown.map(({ data }) => data["text/plain"])), new Set([long(4)]));
    const whole = collector.spilled();
    assert(whole.length < 110_000, `${whole.length}`);
    for (let i = 0; i < 5; i++) assert(whole.includes(long(i)));
  };

  using many = new TestCollector({ maxOutputBytes: 30_000 });
  for (let i = 0; i < 1000; i++) many.display({ "text/plain": "y" }, "x");
  update(many);
  check(many);

  using head = new TestCollector({ maxOutputBytes: 30_000 });
  for (let i = 0; i < 1000; i++) head.display({ "text/plain": "y" }, "x");
  head.stream("s".repeat(50_000));
  update(head);
  check(head);
  assertMatch(head.text ?? "", /^z{10000}4\n/);
});

Deno.test("OutputCollector keeps the last state of a display before a long text", () => {
  using collector = new TestCollector({ maxOutputBytes: 1000 });
  collector.display({ "text/plain": "0%" }, "x");
  collector.stream("s".repeat(5000));
  collector.display({ "text/plain": "done: " + "d".repeat(300) }, "x", "update_display_data");
  assertMatch(collector.text ?? "", /^done: d{300}\ns+\n\[ipybox: .*\]\ns+$/);
  assert((collector.text ?? "").length < 1200);
});

Deno.test("OutputCollector writes up to 64 MiB of images of a result", () => {
  using collector = new TestCollector();
  const svg = (bytes: number) => ({ "image/svg+xml": "é".repeat(bytes / 2) });
  const M = 1024 ** 2;
  for (const size of [40 * M, 40 * M, 1 * M]) collector.display(svg(size));
  // An image that does not fit is decoded in vain only once.
  assertMatch(
    collector.partial().text ?? "",
    /2 files of displays were not saved: .* or more than 64.0 MiB/,
  );
  assertEquals(collector.partial().images.length, 1);
  collector.display(svg(1 * M));
  assertEquals(collector.partial().images.length, 2);
});

Deno.test("OutputCollector writes the images that are shown in the end, up to a limit", () => {
  using collector = new TestCollector();
  for (let i = 0; i < 3000; i++) {
    collector.display({ "image/svg+xml": `<svg>${i}` });
    if (i % 1000 === 999) collector.message("clear_output", { wait: true });
  }
  for (let i = 0; i < 1002; i++) collector.display({ "image/svg+xml": "<svg>" }, `${i}`);
  collector.display({ "image/svg+xml": "<svg>new" }, "0", "update_display_data");
  const { text, images } = collector.partial();
  assertMatch(text ?? "", /2 files of displays were not saved: there are more than 1000/);
  assertEquals(images.length, 1000);
  assertEquals(Deno.readTextFileSync(images[0]?.path ?? ""), "<svg>new");
  assertEquals([...Deno.readDirSync(`${collector.folder}/images`)].length, 1000);
});

Deno.test("OutputCollector gives the HTML of displays in their last state, whatever else they have", () => {
  using collector = new TestCollector();
  collector.display({ "text/html": "<b>old", "text/plain": "old" }, "x");
  collector.display({ "text/html": "<table>", "text/plain": "a  b" });
  collector.display({ "text/html": ["<i>", "</i>"], "image/svg+xml": "<svg/>" });
  collector.display({ "text/plain": "text alone" });
  collector.display({ "text/html": "<b>new", "text/plain": "new" }, "x", UPDATE);
  assertEquals(collector.partial().html, ["<b>new", "<table>", "<i></i>"]);
  collector.message("clear_output", { wait: false });
  assertEquals(collector.partial().html, []);
});

Deno.test("OutputCollector tolerates code that removes its images", () => {
  using collector = new TestCollector();
  const image = (text: string) => ({ "image/svg+xml": "<svg/>", "text/plain": text });
  collector.display(image("1"), "x");
  const [first] = collector.partial().images;
  assert(first !== undefined);
  Deno.removeSync(first.path);
  assertEquals(new TextDecoder().decode(first.bytes()), "<svg/>");
  collector.display(image("2"), "x", "update_display_data");
  const second = collector.partial().images[0]?.path ?? "";
  assert(exists(second));
  Deno.removeSync(second);
  collector.message("clear_output", { wait: false });
  assertEquals(collector.text, null);
});

Deno.test("OutputCollector keeps the texts of displays that were updated apart from others", () => {
  using collector = new TestCollector({ maxOutputBytes: 400 });
  collector.display({ "text/plain": "a" }, "x");
  collector.display({ "text/plain": "b" }, "x");
  collector.display({ "text/plain": "c" });
  collector.display({ "text/plain": "d" }, "x", "update_display_data");
  assertEquals(collector.text, "d\nd\nc");
  collector.display({ "text/plain": "e" }, "x");
  assertEquals(collector.text, "d\nd\nc\ne");
  collector.stream("x".repeat(2000) + "\n");
  collector.display({ "text/plain": "f".repeat(100) }, "x", "update_display_data");
  assertMatch(collector.text ?? "", /omitted here/);
  const states = collector.partial().outputs.flatMap((output) =>
    "displayId" in output ? [output.data["text/plain"]] : []
  );
  assertEquals(states, Array(3).fill("f".repeat(100)));
});

/** A display that only a file can show. */
const PAGE = (html: string) => ({
  "text/html": html,
  "text/plain": "<IPython.core.display.HTML object>",
});

Deno.test("OutputCollector names the file of what has neither text nor picture", () => {
  const address = (name: string) => `<${name} at 0x7fe9d81029d0>`;
  const plotly = { "application/vnd.plotly.v1+json": { data: [1] } };
  const notRendered = "<VegaLite 6 object>\n\nIf you see this message, it means the renderer has " +
    "not been properly enabled\nfor the frontend that you are using.";
  const page = '<!doctype html>\n<meta charset="utf-8">\n';
  const files: (readonly [MimeBundle, kind: string, extension: string, string])[] = [
    [PAGE("<b>é"), "HTML", "html", `${page}<b>é`],
    [{ "text/html": "<b>" }, "HTML", "html", `${page}<b>`],
    [{ "text/html": "<b>", "text/plain": " " }, "HTML", "html", `${page}<b>`],
    [PAGE("\n<!DOCTYPE html><p>"), "HTML", "html", "\n<!DOCTYPE html><p>"],
    [PAGE("<HTML lang='en'>"), "HTML", "html", "<HTML lang='en'>"],
    [{ ...PAGE("<i>"), "text/plain": address("folium.folium.Map") }, "folium Map", "html", "<i>"],
    [{ ...PAGE("<i>"), "text/plain": "alt.Chart(...)" }, "alt Chart", "html", "<i>"],
    [
      { ...PAGE("<i>"), "text/plain": address("__main__.f.<locals>.Größe") },
      "Größe",
      "html",
      "<i>",
    ],
    [{ ...plotly, "text/html": "<i>" }, "plotly figure", "html", `${page}<i>`],
    [plotly, "plotly figure", "json", '{"data":[1]}'],
    [{ "application/vnd.vegalite.v5+json": {} }, "Vega-Lite chart", "json", "{}"],
    [
      { "application/vnd.vegalite.v6.json": {}, "text/plain": notRendered },
      "Vega-Lite chart",
      "json",
      "{}",
    ],
    [{ "application/vnd.vega.v6+json": {} }, "Vega chart", "json", "{}"],
    [
      { "application/geo+json": [], "text/plain": "<IPython.display.GeoJSON object>" },
      "GeoJSON",
      "json",
      "[]",
    ],
  ];
  const long = { a: Array(100_000).fill(1) };
  files.push([{ "application/json": long }, "JSON", "json", JSON.stringify(long)]);
  for (const [bundle, kind, extension, content] of files) {
    using collector = new TestCollector();
    collector.display(bundle, undefined, "execute_result");
    const { text, images, outputs } = collector.partial();
    const [, shown, path = ""] = /^\[(.*): (.*)\]$/.exec(text ?? "") ?? [];
    assertEquals([shown, path.split(".").at(-1)], [kind, extension]);
    assertMatch(path, /\/images\/[0-9a-f]{8}\.\w+$/);
    const own = Deno.readTextFileSync(path);
    assert(own.endsWith(content), own);
    assertEquals(images, []);
    assertEquals(outputs, [{ type: "execute_result", data: bundle, metadata: {} }]);
    assertEquals(collector.chunks, [`result:${text}`]);
  }
});

Deno.test("OutputCollector makes no file of what text or a picture shows", () => {
  const repr = "<IPython.core.display.X object>";
  const texts: readonly (readonly [MimeBundle, text: string | null])[] = [
    [{ "text/plain": "   a\n0  1", "text/html": "<table>" }, "   a\n0  1"], // a DataFrame
    [{ "text/plain": "[1]", "text/html": "<b>" }, "[1]"],
    [{ "text/plain": "<Quantity 5 m>", "text/html": "5", "text/latex": "$5$" }, "<Quantity 5 m>"],
    [{ "text/plain": repr, "text/html": "<p>", "text/markdown": "# M" }, "# M"],
    [{ "text/markdown": "# M" }, "# M"],
    [{ "text/plain": repr, "text/latex": "$x$" }, "$x$"],
    [{ "text/plain": repr, "application/json": { a: [1] } }, '{"a":[1]}'],
    [{ "text/plain": repr, "application/javascript": "f()" }, repr],
    [{ ...PAGE(" \n") }, "<IPython.core.display.HTML object>"],
    [{
      "text/plain": "IntSlider(value=0)",
      "application/vnd.jupyter.widget-view+json": {},
    }, "IntSlider(value=0)"],
    [{ "text/plain": repr, "text/html": "<img>", "image/png": "AAAA" }, null],
  ];
  for (const [bundle, text] of texts) {
    using collector = new TestCollector();
    collector.display(bundle);
    assertEquals(collector.text, text);
    const files = exists(`${collector.folder}/images`)
      ? [...Deno.readDirSync(`${collector.folder}/images`)].map(({ name }) => name)
      : [];
    assertEquals(files.filter((name) => !name.endsWith(".png")), []);
  }
});

Deno.test("OutputCollector keeps the path of a page that is updated, and its last state", () => {
  using collector = new TestCollector();
  collector.display(PAGE("1"), "x");
  collector.display(PAGE("2"), "x", UPDATE);
  const { text } = collector.partial();
  const path = /: (.*)\]$/.exec(text ?? "")?.[1] ?? "";
  for (const state of ["3", "4"]) collector.display(PAGE(state), "x", UPDATE);
  assertEquals(collector.text, text);
  assertEquals(collector.chunks, [`stdout:${text}`]);
  assertEquals(Deno.readTextFileSync(path).at(-1), "4");
  assertEquals([...Deno.readDirSync(`${collector.folder}/images`)].length, 1);
  collector.display({ "text/plain": "done" }, "x", UPDATE);
  assertEquals(collector.text, "done");
  assert(!exists(path), "the page is left behind");
});

Deno.test("OutputCollector saves the pages that its chunks have named", () => {
  const path = (collector: TestCollector) => /: (.*)\]$/.exec(collector.chunks[0] ?? "")?.[1] ?? "";
  using cancelled = new TestCollector();
  cancelled.display(PAGE("<b>"));
  cancelled.end();
  assert(exists(path(cancelled)));

  using cleared = new TestCollector();
  cleared.display(PAGE("<b>"));
  assert(cleared.text !== null && exists(path(cleared)));
  cleared.message("clear_output", { wait: false });
  assertEquals([cleared.text, exists(path(cleared))], [null, false]);
});

Deno.test("OutputCollector says which pages are not saved", () => {
  const folder = Deno.makeTempDirSync();
  Deno.writeTextFileSync(join(folder, "file"), "");
  using nowhere = new TestCollector({ images: new ArtifactFolder(join(folder, "file/images")) });
  nowhere.display(PAGE("<b>"));
  assertMatch(nowhere.text ?? "", /^\[HTML: not saved\]\n\[ipybox: HTML could not be saved: /);
  Deno.removeSync(folder, { recursive: true });

  using large = new TestCollector();
  for (const size of [40, 40]) large.display(PAGE("x".repeat(size * 2 ** 20)));
  assertMatch(
    large.text ?? "",
    /^\[HTML: .*html\]\n\[HTML: not saved\]\n.*1 files of displays were/,
  );

  using many = new TestCollector({ maxOutputBytes: 2 ** 20 });
  for (let i = 0; i < 1002; i++) many.display(PAGE("<b>"));
  assertMatch(many.text ?? "", /(\[HTML: not saved\]\n){2}.*2 files of displays were not saved/);
  assertEquals([...Deno.readDirSync(`${many.folder}/images`)].length, 1000);

  using full = new TestCollector();
  for (let i = 0; i < 3; i++) full.display(PAGE("x".repeat(50 * 2 ** 20)));
  assertMatch(full.text ?? "", /\n<IPython.core.display.HTML object>\n/); // its data are not kept
});

Deno.test("OutputCollector follows no link that code puts in place of a page", () => {
  using collector = new TestCollector();
  const kept = join(collector.folder, "kept.txt");
  Deno.writeTextFileSync(kept, "as it was");
  collector.display(PAGE("1"), "x");
  const path = /: (.*)\]$/.exec(collector.text ?? "")?.[1] ?? "";
  collector.display(PAGE("2"), "x", UPDATE);
  Deno.symlinkSync(kept, path);
  assertMatch(collector.text ?? "", /^\[HTML: not saved\]\n\[ipybox: HTML could not be saved/);
  assertEquals(Deno.readTextFileSync(kept), "as it was");
});

Deno.test("OutputCollector takes malformed messages", () => {
  using collector = new TestCollector();
  collector.message("stream", { name: "stdout", text: 5 });
  collector.message("display_data", { data: "no bundle" });
  collector.message("display_data", { data: { "text/plain": { a: 1 }, "image/png": [1] } });
  collector.message("error", { ename: 1, traceback: "x" });
  collector.message("clear_output", { wait: true });
  assertEquals(collector.text, null);
  assertEquals(collector.partial().outputs.length, 3);
});

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

Deno.test("OutputCollector leaves out what was cleared, at once or with the next output", () => {
  using collector = new TestCollector();
  collector.stream("old\n");
  collector.display({ "image/svg+xml": "<svg/>", "text/plain": "picture" }, "one");
  const [image] = collector.partial().images;
  collector.message("clear_output", { wait: true });
  assertEquals(collector.text, "old\npicture");
  collector.stream("new\n");
  assertEquals(collector.partial(), {
    text: "new",
    images: [],
    html: [],
    outputs: [{ type: "stream", name: "stdout", text: "new\n" }],
  });
  assertThrows(() => Deno.statSync(image?.path ?? ""), Deno.errors.NotFound);
  collector.message("clear_output", { wait: false });
  assertEquals(collector.partial(), NO_OUTPUT);
  assertEquals(collector.chunks, ["stdout:old\n", "stdout:picture", "stdout:\nnew\n"]);
});

Deno.test("OutputCollector keeps all in the file of a long text that was cleared", () => {
  using collector = new TestCollector();
  collector.stream("a".repeat(2000));
  collector.message("clear_output", { wait: false });
  assertEquals(collector.text, null);
  collector.stream("b".repeat(2000));
  assertEquals(collector.spilled(), "a".repeat(2000) + "b".repeat(2000));
});

Deno.test("OutputCollector streams the next state of a display", () => {
  using collector = new TestCollector();
  for (const text of ["1%", "2%", "2%", "3%"]) {
    collector.display(
      { "text/plain": text },
      "bar",
      text === "1%" ? "display_data" : "update_display_data",
    );
  }
  assertEquals(collector.chunks, ["stdout:1%", "stdout:\n2%", "stdout:\n3%"]);
  assertEquals(collector.text, "3%");
});
