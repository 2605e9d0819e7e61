/**
 * Writes `docs/llms.txt` and `docs/llms-full.txt`, which agents read, from the documents and the
 * output of `deno doc` on stdin; with `--check` it only compares.
 *
 * @see {@link https://llmstxt.org}
 * @module
 */
import { posix } from "node:path";
import config from "../deno.json" with { type: "json" };

const root = new URL("../", import.meta.url);

async function read(path: string): Promise<string> {
  return await Deno.readTextFile(new URL(path, root));
}

/** The API as `deno doc` prints it, on stdin: each module under the name that it is imported by. */
async function api(): Promise<string> {
  const text = await new Response(Deno.stdin.readable).text();
  const names = new Map(
    Object.entries(config.exports).map(([name, path]) => [new URL(path, root).href, name]),
  );
  return text.split("\n").filter((line) => !line.startsWith("Defined in ")).map((line) => {
    const name = names.get(line);
    if (name !== undefined) return `## ${posix.join(config.name, name)}`;
    return line.replace(/^(reference .*\.ts):\d+:\d+$/, "$1"); // any edit above moves it
  }).join("\n").replaceAll(root.href, "").trim(); // a checkout may be anywhere
}

/** The title and the chapters of a document. */
function headingsOf(text: string): string[] {
  const code = /^```.*?^```$/gms; // whose comments look like headings
  return [...text.replaceAll(code, "").matchAll(/^##? (.+)$/gm)].map(([, heading = ""]) => heading);
}

async function build(): Promise<Record<string, string>> {
  const readme = await read("README.md");
  const [title = "", summary = ""] = readme.split("\n\n");
  const pages = await Array.fromAsync(Deno.readDir(new URL("docs/", root)), ({ name }) => name);
  const names = pages.filter((name) => name.endsWith(".md")).toSorted();
  const texts = await Promise.all(names.map((name) => read(`docs/${name}`)));
  const links = texts.map((text, i) =>
    `- [${names[i]}](${names[i]}): ${headingsOf(text).join("; ")}`
  );
  const short = [
    title,
    `> ${summary.replaceAll("\n", " ")}`,
    "## Documents",
    [
      "- [README.md](../README.md): what ipybox is, installation, first steps",
      ...links,
    ]
      .join("\n"),
    "## Everything in one file",
    "- [llms-full.txt](llms-full.txt): these documents, and the API of the modules",
  ];
  const notes = /^<!-- .* -->\n\n/gm; // for the tests
  const documents = [readme, ...texts].map((text) => text.replaceAll(notes, ""));
  const full = [...documents, `# API of the modules\n\n${await api()}`];
  return {
    "docs/llms.txt": `${short.join("\n\n")}\n`,
    "docs/llms-full.txt": `${full.map((text) => text.trim()).join("\n\n")}\n`,
  };
}

for (const [path, text] of Object.entries(await build())) {
  if (!Deno.args.includes("--check")) await Deno.writeTextFile(new URL(path, root), text);
  else if (await read(path).catch(() => "") !== text) {
    throw new Error(`${path} is stale: deno task llms`);
  }
}
