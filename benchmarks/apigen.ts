// deno-lint-ignore-file no-console -- it reports to a terminal
/**
 * What generating Python costs for each tool of real servers, beside the reference's generator on the
 * same tools in the same run.
 *
 * Run it with `deno run -A benchmarks/apigen.ts`. It takes the corpus beside the repository or in
 * `IPYBOX_CORPUS`. The reference comes from PyPI with the newest releases that fit it; where that cannot
 * be had, the reason is said.
 *
 * @module
 */
import { generatePackage, renderFiles } from "../src/apigen/generate.ts";
import {
  CORPUS,
  type CorpusServer,
  corpusServers,
  NO_CORPUS,
  packageName,
} from "../tests/support/corpus.ts";
import { median, quantile } from "./support.ts";

/** It does not run with version 2 of the MCP package, though it asks for no older one. */
const REFERENCE = ["mcpygen==0.1.4", "mcp<2"];

/** Tools of every server that the reference generates, too: it takes a while. */
const SHARE_FOR_REFERENCE = 5;

if (CORPUS === undefined) {
  console.log(`Skipped: ${NO_CORPUS}`);
  Deno.exit(0);
}
const listings = corpusServers();
const rootDir = await Deno.makeTempDir({ prefix: "ipybox-bench-" });
try {
  const samples = await sampleFile();
  for (let round = 1; round <= 3; round++) {
    const all = listings.flatMap(({ tools }) => tools);
    const own = all.map(timed);
    report(`ipybox, all ${own.length} tools, round ${round}`, own);
  }
  console.log(`writing all packages: ${(await timePackages()).toFixed(0)} ms`);
  console.log(`writing them again, unchanged: ${(await timePackages()).toFixed(0)} ms`);

  const { tools } = JSON.parse(await Deno.readTextFile(samples)) as CorpusServer;
  const own = tools.map(timed);
  const reference = await timeReference(samples);
  if (typeof reference === "string") {
    console.log(`the reference: skipped: ${reference}`);
  } else {
    const worked = reference.filter((time) => time !== null);
    const failed = reference.length - worked.length;
    report(`the reference, ${reference.length} of these tools, ${failed} of them failed`, worked);
    report("ipybox, the same tools", own);
    console.log(`ratio of the medians: ${(median(worked) / median(own)).toFixed(1)}`);
  }
} finally {
  await Deno.remove(rootDir, { recursive: true });
}

/** The milliseconds from a tool's definition to the text of its module. */
function timed(tool: unknown): number {
  const start = performance.now();
  renderFiles("bench", { tools: [tool] });
  return performance.now() - start;
}

async function timePackages(): Promise<number> {
  const start = performance.now();
  for (const { server, tools } of listings) {
    await generatePackage(packageName(server), { tools }, { rootDir });
  }
  return performance.now() - start;
}

/** Writes the tools that both generate to a file. */
async function sampleFile(): Promise<string> {
  const all = listings.flatMap(({ tools }) => tools);
  const tools = all.filter((_, index) => index % SHARE_FOR_REFERENCE === 0);
  await Deno.writeTextFile(`${rootDir}/tools.json`, JSON.stringify({ tools }));
  return `${rootDir}/tools.json`;
}

/** The reference's times, or why there are none. */
async function timeReference(samples: string): Promise<(number | null)[] | string> {
  const python = `${rootDir}/venv/bin/python`;
  const script = new URL("./mcpygen_baseline.py", import.meta.url).pathname;
  const steps: [string, string[]][] = [
    ["python3", ["-m", "venv", `${rootDir}/venv`]],
    [python, ["-m", "pip", "install", "--quiet", ...REFERENCE]],
    [python, [script, samples]],
  ];
  let output = "";
  for (const [command, args] of steps) {
    const { success, stdout, stderr } = await new Deno.Command(command, { args }).output();
    const decoder = new TextDecoder();
    if (!success) return `${args.join(" ")}: ${decoder.decode(stderr).trim().slice(-300)}`;
    output = decoder.decode(stdout);
  }
  return JSON.parse(output.trim().split("\n").at(-1) ?? "");
}

function report(what: string, times: readonly number[]): void {
  const at = (share: number) => quantile(times, share).toFixed(2);
  const sum = times.reduce((total, time) => total + time, 0).toFixed(0);
  console.log(
    `${what}: median ${at(0.5)} ms, p95 ${at(0.95)} ms, most ${at(1)} ms, in all ${sum} ms`,
  );
}
