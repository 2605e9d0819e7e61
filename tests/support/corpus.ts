/**
 * The tool lists of real servers and the groups of JSON-Schema-Test-Suite, which lie beside the
 * repository and are not part of it.
 *
 * @module
 */

/** Where the corpus is: in `IPYBOX_CORPUS`, or beside the repository. `undefined` if it is nowhere. */
export const CORPUS: string | undefined = [
  Deno.env.get("IPYBOX_CORPUS"),
  new URL("../../../shared/corpus", import.meta.url).pathname,
].find((path) => path !== undefined && isFolder(`${path}/mcp-tools`));

/** Why a test of the corpus is left out. */
export const NO_CORPUS =
  "the corpus of real tool lists is neither beside the repository nor in IPYBOX_CORPUS";

/** A server of the corpus. */
export interface CorpusServer {
  readonly server: string;
  readonly serverInfo?: unknown;
  readonly tools: readonly { readonly name: string; readonly [key: string]: unknown }[];
}

/** The servers of the corpus, in the order of their names. */
export function corpusServers(): CorpusServer[] {
  return files("mcp-tools").map((path) => JSON.parse(Deno.readTextFileSync(path)));
}

/** The name of the package of a server of the corpus. */
export function packageName(server: string): string {
  return server.replaceAll(/\W/g, "_").toLowerCase();
}

/** What programs made for a server's tools are allowed to send, and what its tools may answer. */
export interface ToolExamples {
  readonly tool: string;
  readonly valid?: readonly unknown[];
  readonly results?: readonly unknown[];
}

/** The labelled examples of a server's tools. Numbers keep their spelling. */
export function toolExamples(server: string): ToolExamples[] {
  const path = `${CORPUS}/mcp-tools-examples/${server}.json`;
  return parse<{ examples: ToolExamples[] }>(Deno.readTextFileSync(path)).examples;
}

/** A group of the test suite as a tool's input. */
export interface SuiteGroup {
  readonly id: string;
  readonly mode: "direct" | "wrapped";
  readonly optional: boolean;
  readonly schema: unknown;
  readonly tests: readonly { readonly args: unknown; readonly valid: boolean }[];
}

/**
 * The groups of one draft. Numbers in the schemas keep their spelling, as they do on the wire.
 *
 * @param draft The draft, such as `"draft2020-12"`.
 * @returns The groups.
 */
export function suiteGroups(draft: string): SuiteGroup[] {
  const path = `${CORPUS}/json-schema-suite/${draft}.json`;
  return parse<{ groups: SuiteGroup[] }>(Deno.readTextFileSync(path)).groups;
}

function parse<Content>(text: string): Content {
  const { rawJSON } = JSON as typeof JSON & { rawJSON(text: string): unknown };
  const keep = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === "number" && context?.source !== undefined ? rawJSON(context.source) : value;
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown);
}

function files(folder: string): string[] {
  return [...Deno.readDirSync(`${CORPUS}/${folder}`)].map(({ name }) =>
    `${CORPUS}/${folder}/${name}`
  )
    .filter((path) => path.endsWith(".json")).sort();
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch {
    return false; // that it is not there is the answer
  }
}
