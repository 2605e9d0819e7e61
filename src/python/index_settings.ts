/**
 * Which package index installers use on this machine, as pip's configuration says.
 *
 * @module
 */
import type { ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import { defaultIndex } from "./default_index.ts";
import { installerEnvironment } from "./installer_environment.ts";

/** Where packages come from. */
export interface IndexSettings {
  /** The addresses of the indexes. */
  readonly indexes: readonly string[];
  /** The hosts that this takes, sorted. */
  readonly hosts: readonly string[];
  /** Local files and folders that this takes. */
  readonly paths: readonly string[];
  /** The file of certificates that the installer trusts, where one is configured. */
  readonly certificates: string | undefined;
  /** Variables that make an installer use it. */
  readonly env: Readonly<Record<string, string>>;
  /** The text of a configuration file, which `PIP_CONFIG_FILE` has to name, where one is needed. */
  readonly file: string | undefined;
}

/** The options of pip that have to do with where packages come from. */
const OPTIONS: ReadonlySet<string> = new Set([
  "cert",
  "client-cert",
  "extra-index-url",
  "find-links",
  "index-url",
  "no-binary",
  "no-index",
  "only-binary",
  "prefer-binary",
  "retries",
  "timeout",
  "default-timeout",
  "trusted-host",
]);

/** pip's sections, the later one counting more. */
const SECTIONS: readonly string[] = ["global", "install", ":env:"];

/** Reads what pip is configured to: by its files and by `PIP_…` variables. */
export async function readIndexSettings(
  python: ProgramPath,
  signal?: AbortSignal,
): Promise<IndexSettings> {
  const { success, stdout, stderr } = await runProgram(python, {
    args: ["-I", "-m", "pip", "config", "list"],
    env: installerEnvironment(),
    clearEnv: true,
    signal,
  });
  if (!success) {
    const reason = stderr.trim().split("\n").at(-1);
    throw new Error(`Cannot tell which package index pip uses: ${reason}`);
  }
  const main = await defaultIndex(python, ["-I", "-m", "pip", "install"], { signal });
  return indexSettings(stdout, main);
}

/** Reads what `pip config list` prints. */
export function indexSettings(listing: string, main: string): IndexSettings {
  const sections = new Map(SECTIONS.map((name) => [name, new Map<string, string>()]));
  for (const line of listing.split("\n")) {
    const equals = line.indexOf("=");
    const dot = line.lastIndexOf(".", equals);
    const [section, option] = [line.slice(0, Math.max(0, dot)), line.slice(dot + 1, equals)];
    const value = line.slice(equals + 1);
    if (OPTIONS.has(option)) sections.get(section)?.set(option, unquoted(value));
  }
  const options = new Map(SECTIONS.flatMap((name) => [...sections.get(name) ?? []]));
  const isOffline = /^(1|true|yes|on)$/i.test(options.get("no-index") ?? "");
  const indexes = isOffline ? [] : [
    ...words(options.get("index-url") ?? main),
    ...words(options.get("extra-index-url")),
  ];
  const links = words(options.get("find-links"));
  const certificates = ["cert", "client-cert"].flatMap((name) => options.get(name) ?? []);
  return {
    indexes,
    hosts: hostsOfUrls([...indexes, ...links]),
    paths: pathsOf([...links, ...certificates]),
    certificates: options.get("cert"),
    env: {},
    file: configFile(options),
  };
}

/** The hosts of those texts that are addresses, sorted. */
export function hostsOfUrls(texts: readonly string[]): string[] {
  const hosts = new Set<string>();
  for (const text of texts) {
    const url = URL.parse(text);
    if (url !== null && /^https?:$/.test(url.protocol)) hosts.add(url.hostname);
  }
  return [...hosts].sort();
}

/** Those texts that are local files or folders. */
export function pathsOf(texts: readonly string[]): string[] {
  return texts.flatMap((text) =>
    text.startsWith("/") ? [text] : text.startsWith("file:///") ? [new URL(text).pathname] : []
  );
}

/** The words of a text; none for no text. */
export function words(value: string = ""): string[] {
  return value.split(/\s+/).filter((word) => word !== "");
}

/** The text of a file that makes pip use these options. */
function configFile(options: ReadonlyMap<string, string>): string {
  // A line break in a value goes on in the next line, which is indented.
  const lines = [...options].map(([name, value]) => `${name} = ${value.replaceAll("\n", "\n  ")}`);
  return `[global]\n${lines.join("\n")}\n`;
}

/** The text of a Python string literal, as `repr()` writes it. */
function unquoted(literal: string): string {
  return literal.slice(1, -1).replace(
    /\\(n|t|r|x[0-9a-f]{2}|u[0-9a-f]{4}|.)/g,
    (_, escape: string) => {
      const simple = { n: "\n", t: "\t", r: "\r" }[escape];
      if (simple !== undefined) return simple;
      return escape.length === 1 ? escape : String.fromCharCode(parseInt(escape.slice(1), 16));
    },
  );
}
