/**
 * The package indexes that pip and uv are configured to use on this machine.
 *
 * @module
 */
import { ConfigError } from "../base/errors.ts";
import { hostEnv } from "../base/permission.ts";
import { shellWord } from "../base/shell_word.ts";
import { allDone } from "../base/signals.ts";
import { PrivateFolder } from "../files/private_folder.ts";
import { moduleArgs } from "../process/python_args.ts";
import { namedProgram, type ProgramPath } from "../process/program.ts";
import { runProgram } from "../process/run_program.ts";
import type { PythonEnvironment } from "./managed.ts";

/** Where packages come from. */
export interface IndexSettings {
  /** The addresses of the indexes. */
  readonly indexes: readonly string[];
  /** Whether they rank equally, as for pip, so that one that does not answer is left out. */
  readonly alike: boolean;
  /** The hosts to reach for this, sorted. */
  readonly hosts: readonly string[];
  /** Local files and folders needed for this. */
  readonly paths: readonly string[];
  /** The configured certificate file of the installer, if any. */
  readonly certificates: string | undefined;
  /**
   * Whether builds could read a secret: a password, query or token in an address, or a private key.
   */
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
  { indexes: [main, ...extra], alike, secret, options, pipOptions }: IndexSettings,
): string {
  const index = [
    ...extra.map((url) => `{ url = ${JSON.stringify(url)} }`),
    ...(main === undefined ? [] : [`{ url = ${JSON.stringify(main)}, default = true }`]),
  ];
  return [
    `index = [${index.join(", ")}]`,
    ...(main === undefined ? ["no-index = true"] : []),
    ...(secret ? ["no-build = true"] : []),
    ...(alike ? ['index-strategy = "unsafe-best-match"'] : []),
    ...entries(options),
    "[pip]",
    ...entries(pipOptions),
  ].join("\n");
}

/** Lines of TOML, which writes lists of strings as JSON does. */
function entries(lists: Lists): string[] {
  return Object.entries(lists).map(([name, list]) => `${name} = ${JSON.stringify(list)}`);
}

type Lists = Readonly<Record<string, readonly string[]>>;

/**
 * Reads the configuration of pip and of uv. If uv has its own package sources, pip's do not count.
 */
export async function readIndexSettings(
  python: Pick<PythonEnvironment, "executable"> & { readonly managed?: boolean },
  { uv, cache: kept, signal }: {
    readonly uv: ProgramPath;
    /** A cache that no code can have written to: uv stores facts about the Python there. */
    readonly cache?: string;
    readonly signal?: AbortSignal;
  },
): Promise<IndexSettings> {
  const env = installerEnvironment();
  await using folder = await PrivateFolder.create();
  const cache = kept ?? `${folder.path}/cache`;
  const executable = python.managed ? python.executable : await plainPython(python, folder);
  const ask = { uv, cache, python: executable, signal };
  const [pip, { own, plain }] = await allDone([
    readPipOptions(python, signal),
    (async () => ({
      own: await askUv({ ...ask, env }),
      plain: await askUv({ ...ask, env: {}, args: ["--no-config"] }), // the cache has the Python now
    }))(),
  ]);
  return indexSettings({ pip, env, own: own === plain ? undefined : own, plain });
}

/** Asks uv for its package sources, in the form of pip's options. */
async function askUv({ uv, cache, python, env, args = [], signal }: {
  readonly uv: ProgramPath;
  readonly cache: string;
  readonly python: string;
  readonly env: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  readonly signal: AbortSignal | undefined;
}): Promise<string> {
  const quiet = ["--quiet", "--no-header", "--offline", "--cache-dir", cache, "--python", python];
  const { success, stdout, stderr } = await runProgram(uv, {
    args: ["pip", "compile", ...quiet, ...args, "--emit-index-url", "--emit-find-links", NOTHING],
    env,
    clearEnv: true,
    signal,
  });
  if (success) return stdout;
  throw new ConfigError(`Cannot read uv's configuration: ${stderr.trim().replaceAll("\n", " ")}`);
}

/** Makes a program that runs a Python without its `.pth` files: outside of a sandbox, uv would obey them. */
async function plainPython(
  { executable }: Pick<PythonEnvironment, "executable">,
  { path }: PrivateFolder,
): Promise<string> {
  const text = `#!/bin/sh\nexec ${shellWord(executable)} -I -S "$@"\n`;
  await Deno.writeTextFile(`${path}/python`, text, { mode: 0o700 });
  return `${path}/python`;
}

/** An empty file of requirements. */
const NOTHING = "/dev/null";

/** pip's options by name. */
type PipOptions = Readonly<Record<string, string>>;

/** pip's sections, as `pip config list` names them; later ones take precedence. */
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

/** The value of a string that Python shows as its `repr`. */
function unquoted(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/g, (_, mark: string) => mark === "n" ? "\n" : mark);
}

/** Package sources. */
interface Sources {
  /** The main index; `undefined` if no index is used. */
  readonly main: string | undefined;
  readonly extra: readonly string[];
  /** Files and pages that are not an index. */
  readonly links: readonly string[];
}

/** This machine's configuration. */
interface Configured {
  /** pip's options. */
  readonly pip?: PipOptions;
  readonly env?: Readonly<Record<string, string>>;
  /** uv's answer, if it has package sources of its own. */
  readonly own?: string;
  /** uv's answer without any configuration. */
  readonly plain?: string;
}

/** Combines the settings of pip and uv. */
export function indexSettings(
  { pip = {}, env = {}, own, plain = "" }: Configured,
): IndexSettings {
  const { main, extra, links } = own === undefined ? sourcesOfPip(pip, plain) : sourcesIn(own);
  const indexes = main === undefined ? [] : [main, ...extra];
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
    alike: own === undefined && extra.length > 0,
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

/** The package sources in an answer of uv. */
function sourcesIn(answer: string): Sources {
  const named = (option: string) =>
    answer.split("\n").filter((line) => line.startsWith(`${option} `))
      .map((line) => line.slice(option.length + 1));
  return {
    main: named("--index-url")[0],
    extra: named("--extra-index-url"),
    links: named("--find-links"),
  };
}

function sourcesOfPip(pip: PipOptions, plain: string): Sources {
  const isOffline = /^(1|true|yes|on)$/i.test(pip["no-index"] ?? "");
  return {
    main: isOffline ? undefined : pip["index-url"] ?? sourcesIn(plain).main,
    extra: words(pip["extra-index-url"]),
    links: words(pip["find-links"]),
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
