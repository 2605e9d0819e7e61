import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { browserTest } from "../support/browser.ts";
import { textsAt } from "../support/in_page.js";
import { runProgram } from "../support/program.ts";
import { TempFolder } from "../support/temp_folder.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

browserTest(
  "`deno task pictures` makes a recording that plays, and a photograph of the page",
  async (browser) => {
    await using folder = await TempFolder.create();
    const args = ["task", "-q", "pictures", "--to", folder.path];
    const { code, stdout, stderr } = await runProgram(Deno.execPath(), args, { cwd: root });
    const [demo, approval] = [`${folder.path}/demo.svg`, `${folder.path}/approval.png`];
    assertEquals([code, stdout], [0, `${demo}\n${approval}\n`], stderr);

    const svg = await Deno.readTextFile(demo);
    const rows = rowsOf(svg);
    for (const row of ROWS) assert(rows.includes(row), `${row} is not in:\n${rows.join("\n")}`);
    assert(svg.length < 300_000 && !/<script|href|\son\w+=/.test(svg));
    for (const path of [root, Deno.env.get("HOME") ?? root]) assert(!svg.includes(`${path}/`));

    const seconds = Number(/ ([\d.]+)s step-end infinite/.exec(svg)?.[1]);
    assert(seconds > 20 && seconds <= 30, `It plays for ${seconds} s`);
    const moving = await browser.open(`file://${demo}`);
    const still = await browser.open(`file://${demo}`, { reducedMotion: "reduce" });
    const all = await still.evaluate(textsAt, null);
    assertStringIncludes(all.at(-1) ?? "", "In [3]:");
    assertEquals(await moving.evaluate(textsAt, 0), []);
    assertEquals(await moving.evaluate(textsAt, seconds - 0.1), all);
    assert((await moving.evaluate(textsAt, seconds / 2)).length < all.length);

    const png = new DataView((await Deno.readFile(approval)).buffer);
    assertEquals(png.getUint32(0), 0x89504e47);
    const [width, height] = [png.getUint32(16), png.getUint32(20)];
    assert(width <= 1280 && width > 800 && height > 600 && png.byteLength > 40_000);
    assertEquals(browser.problems, []);
  },
);

/** What programs printed and a person typed. */
const ROWS = [
  "$ ipybox register notes -- npx -y @modelcontextprotocol/server-filesystem@2026.8.31 ~/notes",
  "notes: 14 tools in mcptools/notes/",
  "In [1]: from mcptools.notes import read_text_file, write_file",
  "| notes.read_text_file(path='monday.md')",
  "Allow? [y]es [n]o [c]ell [a]lways [s]ession [e]dit [d]etails, then Enter: c",
  "Out[1]: 3",
  "In [2]: ! ls ../notes",
  "ls: cannot access '../notes': No such file or directory",
];

/** The rows of a picture of a terminal, with a space between pieces of different styles. */
function rowsOf(svg: string): string[] {
  const pieces = [...svg.matchAll(/<text x="[\d.]+" y="([\d.]+)"[^>]*>([^<]*)/g)];
  const rows = Map.groupBy(pieces, ([, y]) => y);
  return [...rows.values()].map((row) => row.map(([, , text]) => text).join(" "));
}
