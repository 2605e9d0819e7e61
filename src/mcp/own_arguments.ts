import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { ConfigError } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { isInside, lstatIfAllowed, realPathIfSeen } from "../process/trusted_path.ts";
import { requireOwnProgram } from "../sandbox/workspace.ts";
import { CODE_VARIABLE } from "./params.ts";

/** A server process to be started outside of any sandbox. */
interface HostCommand {
  /** The server's name, for errors. */
  readonly serverName: string;
  /** The program, as written or found. */
  readonly command: string;
  readonly args: readonly string[];
  /** The variables that its registration sets. */
  readonly env: Readonly<Record<string, string>>;
  /** Its working directory. */
  readonly cwd: string;
  /** Whether that is a new folder, which only the server writes to. */
  readonly isOwnFolder: boolean;
  /** The workspace, which executed code can write to, if there is one. */
  readonly workspace: string | undefined;
}

/** How a kind of program finds the code that it runs. */
interface Runner {
  /** Program names without a version. */
  readonly names: readonly string[];
  /** The argument that determines what runs; the arguments after it are data. */
  readonly decides?: RegExp;
  /** The argument after which the name of a package is the one that does. */
  readonly leads?: RegExp;
  /** Whether they search the working directory for code; by default only if no file is named. */
  readonly searchesCwd?: "always" | "unnamed";
  /** Whether they also search the parent folders: for packages, settings or programs. */
  readonly searchesAbove?: boolean;
}

/** The name of a package: only this or a package's path is run. */
const PACKAGE = /^(?!run$)[@\w]/;

/** Options of package runners without a value. A word after any other may be its value, and no package. */
const FLAG =
  /^(-[ynqsUv]|-vv|--|--(yes|quiet|silent|verbose|upgrade|isolated|refresh|offline|force|bun|reinstall|native-tls|system-certs|system-site-packages|prefer-(online|offline)|ignore-(scripts|existing)|no-[\w-]+(?<!-package)))$/;

const RUNNERS: readonly Runner[] = [
  { names: ["python", "pythonw", "pypy"], decides: /^-[A-Za-z]*[cm]$/ },
  {
    names: ["node", "nodejs"],
    decides: /^(-[a-z]*[ep]|--eval|--print)$/,
    searchesAbove: true,
  },
  { names: ["deno"], decides: /^(eval$|npm:|jsr:|https?:)/, searchesAbove: true },
  { names: ["ruby", "perl", "lua", "luajit", "Rscript", "julia"], decides: /^-[A-Za-z]*[eE]$/ },
  {
    names: [
      ..."php java jshell kotlin groovy scala clojure clj bb elixir erl escript".split(" "),
      ..."awk gawk mawk nawk sed pwsh powershell tclsh wish expect osascript octave".split(" "),
      ..."racket guile sbcl emacs gdb runghc gjs qjs raku R".split(" "),
    ],
  },
  { names: ["sh", "bash", "dash", "zsh", "ksh", "fish"], decides: /^-[a-z]*c$/ },
  {
    names: ["bun", "npm", "pnpm", "yarn", "uv", "poetry", "pdm", "hatch", "pipenv"],
    leads: /^(exec|dlx|x|tool)$/,
    searchesCwd: "always",
    searchesAbove: true,
  },
  {
    // They put the node_modules/.bin folders of the working directory and its parents first on the
    // search path of `sh` or `node`, read settings there, or prefer packages from those folders.
    names: ["npx", "uvx", "bunx", "pnpx", "pipx", "jbang"],
    decides: PACKAGE,
    searchesCwd: "always",
    searchesAbove: true,
  },
  {
    // The arguments after these run in a container or are mounted there.
    names: ["docker", "podman"],
    decides: /^(run|exec)$/,
    searchesCwd: "always",
    searchesAbove: true,
  },
  {
    names: ["nix"],
    decides: /^(github:|gitlab:|nixpkgs#)/,
    searchesCwd: "always",
    searchesAbove: true,
  },
  {
    names: [
      ..."tsx ts-node make just cargo go mvn gradle sbt lein dotnet bundle rake composer".split(
        " ",
      ),
      ..."mix pixi rye mise direnv docker-compose podman-compose".split(" "),
      ..."swift dart flutter nix-shell stack cabal zig crystal nim".split(" "),
      // These may start any of the others.
      ..."env nice ionice nohup setsid stdbuf timeout time xargs sudo doas busybox chroot su".split(
        " ",
      ),
      ..."dumb-init tini catatonit strace ltrace setpriv unshare nsenter chrt taskset prlimit"
        .split(" "),
      ..."numactl runuser systemd-run script flock parallel entr watchexec nodemon".split(" "),
      ..."mcp-proxy supergateway torsocks proxychains firejail bwrap".split(" "),
    ],
    searchesCwd: "always",
    searchesAbove: true,
  },
];

/** File extensions of code, whatever runs it. */
const CODE = new RegExp(
  "\\.(py|pyw|pyc|pyz|js|mjs|cjs|jsx|ts|mts|cts|tsx|node|wasm|rb|pl|php|lua|r|jl|jar|class|sh|bash|zsh|fish|so)$",
  "i",
);

/** File extensions of data. A file with any other name may be executable by something. */
const DATA = new RegExp(
  "\\.((db|sqlite3?)(-(wal|shm|journal))?|duckdb(\\.wal)?|json|jsonl|ndjson|geojson|csv|tsv|parquet|arrow|feather|avro|xls|xlsx|ods|" +
    "doc|docx|odt|ppt|pptx|odp|pdf|epub|txt|text|md|markdown|rst|log|bib|eml|mbox|ics|vcf|png|jpe?g|gif|" +
    "svg|webp|bmp|tiff?|ico|mp3|wav|ogg|flac|m4a|mp4|webm|mov|mkv|npy|npz|h5|hdf5|gpkg|shp|kml|gpx|" +
    "zip|gz|bz2|xz|zst|tar|7z|pem|crt|key)$",
  "i",
);

/** Extensions of code whose interpreters look for packages and settings in the parent folders. */
const SEARCHES_ABOVE = /\.([mc]?[jt]s|[jt]sx)$/i;

/** Stops Deno from looking for settings, so that only the code itself determines its imports. */
const NO_CONFIG = "--no-config";

/** Options of Node that load modules from the working directory. */
const LOADS =
  /^(-r|--require|--import|--loader|--experimental-loader|--experimental-default-config-file)(=|$)/;

/** Options that grant Deno access to paths, which are not run. */
const PERMISSION = /^(--(allow|deny)-|-[A-Z]=)/;

/** The limits of Linux in bytes: longer arguments, such as texts, cannot be file names. */
const MAX_NAME = 255;
const MAX_PATH = 4096;

/** Refuses a program on the host if executed code can change the code that it runs. */
export async function requireOwnArguments(server: HostCommand): Promise<void> {
  const { serverName, args, cwd, env } = server;
  const check = { server, what: `argument of MCP server "${serverName}"` };
  const runner = await runnerOf(server.command);
  if (SEARCHES_ABOVE.test(server.command)) {
    await refuseAbove(server.command, { ...check, arg: server.command });
  }
  let decided = false; // whether what follows is the program's own data
  let file = false;
  let closed = false; // whether Deno is told not to search the parent folders
  let decides = runner?.decides;
  for (const [index, arg] of args.entries()) {
    const isValue = !arg.startsWith("-") && takesValue(args[index - 1] ?? "");
    if (!decided && runner?.leads?.test(arg) && !isValue) {
      decides = PACKAGE;
      continue;
    }
    if (!decided && decides?.test(arg) && !(decides === PACKAGE && isValue)) {
      decided = true;
      continue;
    }
    closed ||= !decided && arg === NO_CONFIG && runner?.names.includes("deno") === true;
    const option = arg.startsWith("-");
    const text = option ? valueOf(arg) : arg;
    const path = pathOf(text, cwd);
    if (path === undefined) continue;
    const isThere = await lstatIfAllowed(path) !== undefined;
    const mayRun = runner !== undefined && !decided && !PERMISSION.test(arg) &&
      (isThere || /^(\/|\.\.?\/|file:)/i.test(text));
    if (mayRun || await namesCode(path) || await mayBeCode(path)) {
      await refuseInReach(path, { ...check, arg });
      const searched = (mayRun && runner.searchesAbove) || SEARCHES_ABOVE.test(path);
      if (searched && !closed) await refuseAbove(path, { ...check, arg });
    }
    if (mayRun && isThere && !option) decided = file = true;
  }
  for (const [name, value] of Object.entries(env)) {
    if (!CODE_VARIABLE.test(name)) continue;
    for (const part of value.split(/[\s:=]/)) {
      const path = part.startsWith("-") ? undefined : pathOf(part, cwd);
      if (path === undefined) continue;
      if (!part.includes("/") && await lstatIfAllowed(path) === undefined) continue;
      const what = `${name} of MCP server "${serverName}"`;
      await refuseInReach(path, { server, what, arg: part });
    }
  }
  if (runner === undefined) return;
  const { searchesCwd = "unnamed" } = runner;
  if (searchesCwd === "unnamed" && file && !args.some((arg) => LOADS.test(arg))) return;
  const what =
    `working directory of MCP server "${serverName}", whose ${basename(server.command)} ` +
    "looks for code there";
  await refuseInReach(cwd, { server, what, arg: cwd });
  if (runner.searchesAbove && !closed) await refuseAbove(cwd, { server, what, arg: cwd });
}

async function runnerOf(command: string): Promise<Runner | undefined> {
  const names = [command, await realPathIfSeen(command)].map((path) =>
    basename(path).replace(/[\d.]{1,16}$/, "")
  );
  return RUNNERS.find((runner) => names.some((name) => runner.names.includes(name)));
}

/** Whether the next argument may be the value of one of a package runner's. */
function takesValue(arg: string): boolean {
  return arg.startsWith("-") && !arg.includes("=") && !FLAG.test(arg);
}

/** What follows an option's `=`, or a short option without a space, as in `-f/path`. */
function valueOf(option: string): string {
  const at = option.indexOf("=");
  if (at !== -1) return option.slice(at + 1);
  return /^-[A-Za-z]\.{0,2}\//.test(option) ? option.slice(2) : "";
}

function pathOf(text: string, cwd: string): string | undefined {
  const path = /^file:/i.test(text) ? fileOf(text) : text;
  if (path === "" || path.includes("\0")) return undefined;
  const full = resolve(cwd, path);
  const lengthOf = (text: string) => new TextEncoder().encode(text).length;
  if (lengthOf(full) >= MAX_PATH) return undefined;
  return full.split("/").some((name) => lengthOf(name) > MAX_NAME) ? undefined : full;
}

function fileOf(url: string): string {
  try {
    return fileURLToPath(url);
  } catch (error) {
    if (error instanceof TypeError || error instanceof URIError) return ""; // names no file
    throw error;
  }
}

/** Whether a file has the name of code or links to such a file. Folders do not count. */
export async function namesCode(path: string): Promise<boolean> {
  const status = await lstatIfAllowed(path);
  if (status?.isDirectory) return false;
  if (CODE.test(path)) return true;
  return status?.isSymlink === true && CODE.test(await realPathIfSeen(path));
}

/** Whether a path has the name of data, which nothing runs. */
export function namesData(path: string): boolean {
  return DATA.test(path);
}

/** Whether a file exists whose name is not one of data. Folders do not count. */
async function mayBeCode(path: string): Promise<boolean> {
  if (namesData(path)) return false;
  const status = await lstatIfAllowed(path);
  if (status === undefined || status.isDirectory) return false;
  return !status.isSymlink || !(await isFolder(await realPathIfSeen(path)));
}

async function isFolder(path: string): Promise<boolean> {
  return (await lstatIfAllowed(path))?.isDirectory === true;
}

interface Checked {
  readonly server: HostCommand;
  readonly what: string;
  readonly arg: string;
}

/** Refuses paths whose parent folders code can write to, even if the path itself is protected. */
async function refuseAbove(path: string, checked: Checked): Promise<void> {
  for (const start of new Set([path, await realPathIfSeen(path)])) {
    for (let folder = dirname(start); folder !== dirname(folder); folder = dirname(folder)) {
      await refuseInReach(folder, checked);
    }
  }
}

async function refuseInReach(path: string, { server, what, arg }: Checked): Promise<void> {
  if (!mayRead(path)) return; // what cannot be read is not the workspace
  if (server.isOwnFolder && isInside(path, server.cwd)) return;
  const status = await lstatIfAllowed(path);
  // For a folder, its entries count, and this includes the workspace itself.
  const inside = status?.isDirectory ? join(path, "_") : path;
  try {
    await requireOwnProgram(inside, { workspace: server.workspace, what });
  } catch (cause) {
    if (!(cause instanceof ConfigError)) throw cause;
    const [kind] = what.split(" of MCP server ");
    const isCwd = kind === "working directory";
    const [fault, fix] = isCwd
      ? [
        `executed code could replace what ${
          basename(server.command)
        } looks for in its working directory ${arg}`,
        "Name one outside the workspace (for Python and shell scripts also in .ipybox/, which code cannot see)",
      ]
      : [
        `executed code could replace what its ${kind} ${arg} leads to`,
        "Move it out of the workspace (Python and shell scripts also into .ipybox/, which code cannot see)",
      ];
    throw new ConfigError(
      `Cannot start MCP server "${server.serverName}": ${fault}, and the server would run it outside ` +
        `the sandbox. ${fix}, or register the server with \`sandbox: true\` (--sandbox)` +
        (isCwd ? "" : ` (${cause.message.replaceAll(inside, path)})`),
      { cause },
    );
  }
}
