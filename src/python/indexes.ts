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
import { allDone } from "../base/signals.ts";
import { ifPresent } from "../files/safe.ts";
import { moduleArgs } from "../process/python_args.ts";
import { namedProgram, type ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import type { PythonEnvironment } from "./managed.ts";

/** Where packages come from. */
export interface IndexSettings {
  /** The addresses of the indexes. */
  readonly indexes: readonly string[];
  /** Whether they count alike, as for pip, so that one without an answer is left out. */
  readonly alike: boolean;
  /** The hosts to reach for this, sorted. */
  readonly hosts: readonly string[];
  /** Local files and folders needed for this. */
  readonly paths: readonly string[];
  /** The configured certificate file of the installer, if any. */
  readonly certificates: string | undefined;
  /** Whether there is a password, a query or a token in an address, or a private key. */
  readonly secret: boolean;
  /** Variables that uv needs for this. */
  readonly env: Readonly<Record<string, string>>;
  /** The settings that a `uv.toml` needs for this, besides the indexes. */
  readonly options: Lists;
  /** The settings that its part for `uv pip` needs. */
  readonly pipOptions: Lists;
}

/** The text of a `uv.toml`. */
export function uvConfig(
  { indexes: [main, ...extra], alike, options, pipOptions }: IndexSettings,
): string {
  const index = [
    ...extra.map((url) => `{ url = ${JSON.stringify(url)} }`),
    ...(main === undefined ? [] : [`{ url = ${JSON.stringify(main)}, default = true }`]),
  ];
  return [
    `index = [${index.join(", ")}]`,
    ...(main === undefined ? ["no-index = true"] : []),
    ...(alike ? ['index-strategy = "unsafe-best-match"'] : []),
    ...entries(options),
    "[pip]",
    ...entries(pipOptions),
  ].join("\n");
}

/** Lines of TOML, whose lists of texts are those of JSON. */
function entries(lists: Lists): string[] {
  return Object.entries(lists).map(([name, list]) => `${name} = ${JSON.stringify(list)}`);
}

type Lists = Readonly<Record<string, readonly string[]>>;

/** Reads the configuration of pip and of uv from their files and variables. uv's settings count more. */
export async function readIndexSettings(
  python: Pick<PythonEnvironment, "executable">,
  { uv, signal }: { readonly uv: ProgramPath; readonly signal?: AbortSignal },
): Promise<IndexSettings> {
  const env = installerEnvironment();
  const [pip, configs, main] = await allDone([
    readPipOptions(python, signal),
    readUvConfigs(env),
    defaultIndex(uv, signal),
  ]);
  return indexSettings({ pip, configs, env, main });
}

/** pip's options by name. */
type PipOptions = Readonly<Record<string, string>>;

/** pip's sections, as `pip config list` names them; later ones count more. */
const PIP_SECTIONS = ["global", "install", ":env:"];

/** Asks pip for its configuration. A Python without pip, such as one that uv made, has no options of pip. */
export async function readPipOptions(
  { executable }: Pick<PythonEnvironment, "executable">,
  signal?: AbortSignal,
): Promise<PipOptions> {
  const { success, stdout, stderr } = await runProgram(namedProgram(executable), {
    args: [...moduleArgs("pip"), "config", "list", "-vvv"], // a configuration can make pip quiet
    env: installerEnvironment(),
    clearEnv: true,
    signal,
  });
  if (!success && stderr.includes("No module named pip")) return {};
  if (!success) {
    throw new ConfigError(
      `Cannot read pip's configuration: ${stderr.trim().replaceAll("\n", " ")}`,
    );
  }
  const options: Record<string, string> = {};
  const lines = stdout.split("\n");
  for (const section of PIP_SECTIONS) {
    for (const line of lines.filter((line) => line.startsWith(`${section}.`))) {
      const at = line.indexOf("=");
      const value = unquoted(line.slice(at + 1));
      if (value !== "") options[line.slice(section.length + 1, at)] = value; // as pip does
    }
  }
  return options;
}

/** The text of a string as Python shows it. */
function unquoted(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/g, (_, mark: string) => mark === "n" ? "\n" : mark);
}

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

/** This machine's configuration. */
interface Configured {
  /** pip's options. */
  readonly pip?: PipOptions;
  /** uv's files; later ones count more. */
  readonly configs?: readonly UvConfig[];
  /** Variables, among them uv's, which count most. */
  readonly env?: Readonly<Record<string, string>>;
  /** The index of an installer that is not configured. */
  readonly main: string;
}

/** Combines the settings of pip and uv. */
export function indexSettings(
  { pip = {}, configs = [], env = {}, main: fallback }: Configured,
): IndexSettings {
  const ofPip = words(pip["extra-index-url"]);
  let main = pip["index-url"] ?? fallback;
  let extra = ofPip;
  let links = words(pip["find-links"]);
  let isOffline = /^(1|true|yes|on)$/i.test(pip["no-index"] ?? "");
  for (const config of configs) {
    for (const level of [config, config.pip ?? {}]) {
      main = level["index-url"] ?? main;
      extra = listOf(level["extra-index-url"]) ?? extra;
      links = listOf(level["find-links"]) ?? links;
      isOffline = level["no-index"] ?? isOffline;
    }
    const own = config.index?.filter((index) => !index.default) ?? [];
    main = config.index?.find((index) => index.default)?.url ?? main;
    if (own.length > 0) extra = [...extra === ofPip ? [] : extra, ...own.map(({ url }) => url)];
  }
  main = env.UV_DEFAULT_INDEX ?? env.UV_INDEX_URL ?? main;
  const named = words(env.UV_INDEX ?? env.UV_EXTRA_INDEX_URL);
  if (named.length > 0) extra = named.map((word) => word.replace(/^[\w.-]+=(?=https?:)/, ""));
  if (env.UV_FIND_LINKS !== undefined) links = env.UV_FIND_LINKS.split(/[,\s]+/);
  links = links.filter((link) => link !== "");
  const indexes = isOffline ? [] : [main, ...extra];
  const certificates = env.SSL_CERT_FILE ?? pip.cert;
  const key = env.SSL_CLIENT_CERT ?? pip["client-cert"];
  const variables = {
    SSL_CERT_FILE: certificates,
    SSL_CLIENT_CERT: key,
    UV_HTTP_RETRIES: env.UV_HTTP_RETRIES ?? pip.retries,
    UV_HTTP_TIMEOUT: env.UV_HTTP_TIMEOUT ?? pip.timeout ?? pip["default-timeout"],
  };
  return {
    indexes,
    alike: extra === ofPip && ofPip.length > 0,
    hosts: hostsOfUrls([...indexes, ...links]),
    paths: pathsOf([...links, certificates ?? "", key ?? ""]),
    certificates,
    secret: key !== undefined || [...indexes, ...links].some(isSecret),
    env: Object.fromEntries(
      Object.entries(variables).flatMap(([name, value]) =>
        value === undefined ? [] : [[name, value]]
      ),
    ),
    options: {
      ...(links.length === 0 ? {} : { "find-links": links }),
      ...lists(pip, { "trusted-host": "allow-insecure-host" }),
    },
    pipOptions: lists(pip, { "only-binary": "only-binary", "no-binary": "no-binary" }),
  };
}

/** Some of pip's lists by uv's names. */
function lists(pip: PipOptions, names: Readonly<Record<string, string>>): Lists {
  const found = Object.entries(names).map(([from, to]) =>
    [to, words(pip[from]?.replaceAll(",", " "))] as const
  );
  return Object.fromEntries(found.filter(([, list]) => list.length > 0));
}

/** Whether an address has a password, a query or a token in its path. */
function isSecret(address: string): boolean {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol)) return false;
  return url.username !== "" || url.password !== "" || url.search !== "" ||
    url.pathname.split("/").some((part) => TOKEN.test(part));
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

/** Reads uv's files: of all users, then of this one. */
async function readUvConfigs(env: Readonly<Record<string, string>>): Promise<UvConfig[]> {
  const { HOME, XDG_CONFIG_HOME, UV_CONFIG_FILE } = env;
  const folder = XDG_CONFIG_HOME ?? (HOME === undefined ? undefined : join(HOME, ".config"));
  const files = UV_CONFIG_FILE !== undefined
    ? [UV_CONFIG_FILE]
    : ["/etc/uv/uv.toml", ...(folder === undefined ? [] : [join(folder, "uv", "uv.toml")])];
  return await Promise.all(files.map(readUvConfig));
}

function listOf(value: string | readonly string[] | undefined): string[] | undefined {
  return typeof value === "string" ? [value] : value && [...value];
}

/** Reads one of uv's files. */
export async function readUvConfig(path: string): Promise<UvConfig> {
  const text = await ifPresent(Deno.readTextFile(path));
  if (text === undefined) return {};
  try {
    return configSchema.parse(parse(text));
  } catch (cause) {
    const reason = messageOf(cause);
    throw new ConfigError(`Cannot read uv's configuration ${path}: ${reason}`, { cause });
  }
}

/** The index that uv uses by default, according to its `--help`. */
async function defaultIndex(uv: ProgramPath, signal: AbortSignal | undefined): Promise<string> {
  const { stdout } = await runProgram(uv, {
    args: ["pip", "install", "--help"],
    env: { NO_COLOR: "1" },
    clearEnv: true,
    signal,
  });
  const index = indexInHelp(stdout);
  if (index !== undefined) return index;
  throw new Error(`Cannot tell which package index ${uv} uses: configure one`);
}

/** Finds the default index in uv's help. */
export function indexInHelp(help: string): string | undefined {
  return /\(by\s+default:\s+<(https?:\/\/[^\s<>()]+)/.exec(help)?.[1];
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
  ...["PATH", "HOME", "USER", "LANG", "TMPDIR", "SSL_CLIENT_CERT"],
  ...["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"],
]);
const KINDS_FOR_INSTALLERS = ["LC_", "XDG_", "PIP_", "UV_", "SSL_CERT_"];
