/**
 * The package indexes that pip and uv are configured to use on this machine.
 *
 * @module
 */
import { parse } from "@std/toml";
import { join } from "node:path";
import { z } from "zod";
import { ConfigError } from "../base/errors.ts";
import { messageOf } from "../base/message_of.ts";
import { hostEnv } from "../base/permission.ts";
import { unquoted } from "../base/python_string.ts";
import { ifPresent } from "../files/safe.ts";
import type { ProgramPath } from "../process/program.ts";
import { moduleArgs } from "../process/python_args.ts";
import { runProgram } from "../process/run_program.ts";

/** Where packages come from. */
export interface IndexSettings {
  /** The addresses of the indexes. */
  readonly indexes: readonly string[];
  /** The hosts to reach for this, sorted. */
  readonly hosts: readonly string[];
  /** Local files and folders needed for this. */
  readonly paths: readonly string[];
  /** The configured certificate file of the installer, if any. */
  readonly certificates: string | undefined;
  /** Variables that make an installer use these indexes. */
  readonly env: Readonly<Record<string, string>>;
  /** The content of the file that `PIP_CONFIG_FILE` must name, if one is needed. */
  readonly file: string | undefined;
}

/** pip's options for package sources. */
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

/** pip's configuration sections; later ones override earlier ones. */
const SECTIONS: readonly string[] = ["global", "install", ":env:"];

/** Reads pip's configuration from its files and `PIP_…` variables. */
export async function readIndexSettings(
  python: ProgramPath,
  signal?: AbortSignal,
): Promise<IndexSettings> {
  const env = installerEnvironment();
  const { success, stdout, stderr } = await runProgram(python, {
    args: [...moduleArgs("pip"), "config", "list"],
    env,
    clearEnv: true,
    signal,
  });
  if (!success) {
    const reason = stderr.trim().split("\n").at(-1);
    throw new Error(`Cannot tell which package index pip uses: ${reason}`);
  }
  const main = await defaultIndex(python, [...moduleArgs("pip"), "install"], { signal });
  return indexSettings(stdout, main, certificatesOf(env));
}

/** The file of certificates that an environment names for programs in general. */
function certificatesOf(env: Readonly<Record<string, string>>): string | undefined {
  return env.SSL_CERT_FILE ?? env.REQUESTS_CA_BUNDLE ?? env.CURL_CA_BUNDLE;
}

/** Parses the output of `pip config list`. pip trusts `cert` unless its configuration has its own. */
export function indexSettings(listing: string, main: string, cert?: string): IndexSettings {
  const sections = new Map(SECTIONS.map((name) => [name, new Map<string, string>()]));
  for (const line of listing.split("\n")) {
    const equals = line.indexOf("=");
    const dot = line.lastIndexOf(".", equals);
    const [section, option] = [line.slice(0, Math.max(0, dot)), line.slice(dot + 1, equals)];
    const value = line.slice(equals + 1);
    if (OPTIONS.has(option)) sections.get(section)?.set(option, unquoted(value));
  }
  const options = new Map(SECTIONS.flatMap((name) => [...sections.get(name) ?? []]));
  if (cert !== undefined && !options.has("cert")) options.set("cert", cert);
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

/** Whether URLs in the settings have a password, a query or a token in the path, or there is a private key. */
export function hasSecrets({ env, file }: IndexSettings): boolean {
  const texts = [file ?? "", ...Object.values(env)];
  return texts.some((text) => /^client-cert = /m.test(text)) ||
    texts.flatMap((text) => text.split(/[\s,]+/)).some((word) => {
      const url = URL.parse(word);
      if (url === null || !/^https?:$/.test(url.protocol)) return false;
      return url.username !== "" || url.password !== "" || url.search !== "" ||
        url.pathname.split("/").some((part) => TOKEN.test(part));
    });
}

/** A folder name that looks generated. */
const TOKEN = /^(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w-]{16,}$/;

/** The hosts of the texts that are URLs, sorted. */
function hostsOfUrls(texts: readonly string[]): string[] {
  const hosts = new Set<string>();
  for (const text of texts) {
    const url = URL.parse(text);
    if (url !== null && /^https?:$/.test(url.protocol)) hosts.add(url.hostname);
  }
  return [...hosts].sort();
}

/** The texts that name local files or folders. */
function pathsOf(texts: readonly string[]): string[] {
  return texts.flatMap((text) =>
    text.startsWith("/") ? [text] : text.startsWith("file:///") ? [new URL(text).pathname] : []
  );
}

/** The words of a text, if there is one. */
function words(value: string = ""): string[] {
  return value.split(/\s+/).filter((word) => word !== "");
}

/** A pip configuration file with these options. */
function configFile(options: ReadonlyMap<string, string>): string {
  // A value continues on indented lines.
  const lines = [...options].map(([name, value]) => `${name} = ${value.replaceAll("\n", "\n  ")}`);
  return `[global]\n${lines.join("\n")}\n`;
}

// uv's configuration, for a Python without pip.

const urls = z.union([z.string(), z.array(z.string())]).optional();
/** Options that a `uv.toml` can have in two places. */
const table = z.object({
  "index-url": z.string().optional(),
  "extra-index-url": urls,
  "find-links": urls,
  "no-index": z.boolean().optional(),
});
/** The package sources in a `uv.toml`. */
const configSchema = table.extend({
  /** Indexes in the newer syntax. */
  index: z.array(z.object({ url: z.string(), default: z.boolean().default(false) })).optional(),
  /** The same options, for `uv pip` only. */
  pip: table.optional(),
});

type UvConfig = z.infer<typeof configSchema>;

/** Reads uv's configuration from `uv.toml` files and `UV_…` variables, which take precedence. */
export async function readUvSettings(
  env: Readonly<Record<string, string>>,
  main: string,
): Promise<IndexSettings> {
  const { HOME, XDG_CONFIG_HOME, UV_CONFIG_FILE } = env;
  const folder = XDG_CONFIG_HOME ?? (HOME === undefined ? undefined : join(HOME, ".config"));
  const files = UV_CONFIG_FILE !== undefined
    ? [UV_CONFIG_FILE]
    : ["/etc/uv/uv.toml", ...(folder === undefined ? [] : [join(folder, "uv", "uv.toml")])];
  return uvSettings(await Promise.all(files.map(readConfig)), env, main);
}

/** Combines uv's files and variables. */
export function uvSettings(
  configs: readonly UvConfig[],
  env: Readonly<Record<string, string>>,
  fallback: string,
): IndexSettings {
  let main = fallback;
  let extra: string[] = [];
  let links: string[] = [];
  let isOffline = false;
  for (const config of configs) {
    for (const level of [config, config.pip ?? {}]) {
      main = level["index-url"] ?? main;
      extra = listOf(level["extra-index-url"]) ?? extra;
      links = listOf(level["find-links"]) ?? links;
      isOffline = level["no-index"] ?? isOffline;
    }
    for (const { url, default: isMain } of config.index ?? []) {
      if (isMain) main = url;
      else extra.push(url);
    }
  }
  main = env.UV_DEFAULT_INDEX ?? env.UV_INDEX_URL ?? main;
  const named = words(env.UV_INDEX ?? env.UV_EXTRA_INDEX_URL);
  if (named.length > 0) extra = named.map((word) => word.replace(/^[\w.-]+=(?=https?:)/, ""));
  if (env.UV_FIND_LINKS !== undefined) links = env.UV_FIND_LINKS.split(/[,\s]+/);
  links = links.filter((link) => link !== "");
  const certificates = certificatesOf(env);
  return {
    indexes: isOffline ? [] : [main, ...extra],
    hosts: hostsOfUrls(isOffline ? links : [main, ...extra, ...links]),
    paths: pathsOf(certificates === undefined ? links : [...links, certificates]),
    certificates,
    env: {
      UV_LINK_MODE: "copy",
      UV_NO_CONFIG: "1",
      UV_PYTHON_DOWNLOADS: "never",
      UV_DEFAULT_INDEX: main,
      ...(extra.length === 0 ? {} : { UV_INDEX: extra.join(" ") }),
      ...(links.length === 0 ? {} : { UV_FIND_LINKS: links.join(",") }),
      ...(isOffline ? { UV_NO_INDEX: "1" } : {}),
      ...(certificates === undefined ? {} : { SSL_CERT_FILE: certificates }),
    },
    file: undefined,
  };
}

function listOf(value: string | readonly string[] | undefined): string[] | undefined {
  return typeof value === "string" ? [value] : value && [...value];
}

async function readConfig(path: string): Promise<UvConfig> {
  const text = await ifPresent(Deno.readTextFile(path));
  if (text === undefined) return {};
  try {
    return configSchema.parse(parse(text));
  } catch (cause) {
    const reason = messageOf(cause);
    throw new ConfigError(`Cannot read uv's configuration ${path}: ${reason}`, { cause });
  }
}

/** The package index that an installer uses by default, according to its `--help`. */
export async function defaultIndex(
  program: ProgramPath,
  args: readonly string[],
  options: { readonly signal?: AbortSignal | undefined } = {},
): Promise<string> {
  const { stdout } = await runProgram(program, {
    args: [...args, "--help"],
    env: { ...installerEnvironment(), NO_COLOR: "1" },
    clearEnv: true,
    ...options,
  });
  const index = indexInHelp(stdout);
  if (index !== undefined) return index;
  throw new Error(
    `Cannot tell which package index the installer of ${program} uses: configure one`,
  );
}

/** Finds the default index in an installer's help. */
export function indexInHelp(help: string): string | undefined {
  return /\(\s*(?:by\s+)?default:?\s+<?(https?:\/\/[^\s<>()]+)/.exec(help)?.[1];
}

/** The environment for an installer: its configuration, indexes and network settings. */
export function installerEnvironment(): Record<string, string> {
  const all = hostEnv("PATH") === undefined ? {} : Deno.env.toObject();
  return Object.fromEntries(
    Object.entries(all).filter(([name]) => {
      const upper = name.toUpperCase();
      return FOR_INSTALLERS.has(upper) ||
        KINDS_FOR_INSTALLERS.some((kind) => upper.startsWith(kind));
    }),
  );
}

const FOR_INSTALLERS: ReadonlySet<string> = new Set([
  ...["PATH", "HOME", "USER", "LANG", "TMPDIR"],
  ...["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"],
  ...["CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"],
]);
const KINDS_FOR_INSTALLERS = ["LC_", "XDG_", "PIP_", "UV_", "SSL_CERT_"];
