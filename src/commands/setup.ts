import {
  buildPythonEnvironment,
  type EnvironmentRecipe,
  findBasePython,
  findPython,
  type PythonEnvironment,
} from "../python/environment.ts";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { readManaged } from "../python/managed.ts";
import { listPackages, PackageFolder } from "../python/packages.ts";
import { normalized, parseRequirement } from "../python/requirement.ts";
import {
  checkSandbox,
  missingTools,
  requireSandboxPrerequisites,
} from "../sandbox/prerequisites.ts";
import { cacheSrt, checkSrt, SRT_VERSION, srtDeno } from "../sandbox/srt.ts";
import {
  findPackageManager,
  installSystemPackages,
  packagesOf,
  type SystemTool,
} from "../sandbox/system_packages.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs } from "./command.ts";
import { type Installation, showInstallation } from "./install.ts";
import { printable } from "./terminal/columns.ts";

/** The packages that code for data analysis expects. */
export const DATA_PACKAGES: readonly string[] = [
  ...["numpy", "pandas", "scipy", "scikit-learn", "matplotlib", "pillow"],
  ...["openpyxl", "pyarrow", "requests", "beautifulsoup4"],
];

export const command: Command = {
  usage: "[OPTIONS]",
  options: {
    yes: { short: "y", help: "Install system packages with sudo if it needs no password" },
    python: {
      value: "PATH",
      help: "Check that this Python can run kernels, instead of building the managed environment",
    },
    data: { help: "Also install data packages, such as pandas, for all workspaces" },
    rebuild: { help: "Rebuild the managed Python environment, with --data also those packages" },
    json: { help: "Print the result as JSON: the Python's path, and what was installed" },
    "no-sandbox": { help: "Skip what only the sandbox needs" },
  },
  notes: [
    "Lists what it will install, then installs it: system packages (as root, or with",
    "--yes and passwordless sudo), a Python environment in your cache directory, and",
    "the sandbox runtime in Deno's cache. It keeps what is already installed, so you",
    "can run it again at any time.",
    "",
    `--data installs ${DATA_PACKAGES.slice(0, 6).join(", ")},`,
    `${DATA_PACKAGES.slice(6).join(", ")} and their dependencies, in their`,
    "newest versions. Code of all workspaces can import but not change them. Packages",
    "that `ipybox install` installs in a workspace take precedence there.",
    "",
    "Example:",
    "",
    "  ipybox setup --yes",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const { python, installed } = await setUp({
    yes: parsed.has("yes"),
    python: parsed.value("python"),
    rebuild: parsed.has("rebuild"),
    data: parsed.has("data")
      ? (install) => showInstallation(install, { io, verbose: false })
      : undefined,
    sandbox: !parsed.has("no-sandbox"),
    onProgress: (line) => io.err(printable(line)),
    signal: io.signal,
  });
  if (parsed.has("json")) {
    const { executable, version, managed, packages } = python;
    const result = { python: executable, version, managed, packages, installed };
    io.out(JSON.stringify(result, null, 2) + "\n");
    return EXIT.ok;
  }
  const state = installed.length === 0 ? "Everything is in place" : "Everything is set up";
  io.out(`${state}: Python ${python.version} at ${python.executable}\n`);
  return EXIT.ok;
}

interface SetUpOptions {
  /** Whether passwordless sudo may be used for system packages. */
  yes?: boolean;
  /** The user's own Python to check, instead of building the managed environment. */
  python?: string;
  rebuild?: boolean;
  /** Shows the installation of the data packages; without it, they are not installed. */
  data?: ((install: Installation) => Promise<void>) | undefined;
  /** Whether to install the sandbox's prerequisites; by default yes. */
  sandbox?: boolean;
  /** The contents of the managed environment; by default the packages that kernels need. */
  recipe?: EnvironmentRecipe;
  /** Called with each line of progress; never, if there is nothing to install. */
  onProgress?: (line: string) => void;
  /** Stops the setup, and removes incomplete results. */
  signal?: AbortSignal;
}

interface SetUpResult {
  readonly python: PythonEnvironment;
  /** The installed packages; empty if none was missing. */
  readonly installed: readonly string[];
}

/** Installs the missing parts on this machine, and announces them first. */
export async function setUp(options: SetUpOptions = {}): Promise<SetUpResult> {
  const { sandbox = true, data, onProgress, signal } = options;
  const [python, prerequisites, srt] = await Promise.all([
    presentPython(options),
    sandbox ? checkSandbox() : [],
    sandbox ? checkSrt() : undefined,
  ]);
  const tools: SystemTool[] = missingTools(prerequisites);
  if (python === undefined && await findBasePython() === undefined) tools.push("python3");
  const installed: string[] = [];
  const plan: string[] = [];
  if (tools.length > 0) plan.push(await packagesLine(tools));
  if (srt?.state === "missing") plan.push(`the sandbox runtime srt ${SRT_VERSION} (Deno's cache)`);
  if (python === undefined) plan.push("a Python environment for kernels (about 240 MB, cached)");
  const lacksData = data !== undefined && !await hasData(python, options);
  if (lacksData) {
    plan.push(`for all workspaces (about 650 MB, cached): ${DATA_PACKAGES.join(", ")}`);
  }
  if (plan.length > 0) onProgress?.(`ipybox installs:\n${plan.map((l) => `  - ${l}`).join("\n")}`);
  if (tools.length > 0) {
    await installSystemPackages(tools, options);
    installed.push(...tools);
  }
  if (sandbox) await requireSandboxPrerequisites(); // before the long part: no packages help if this fails
  if (srt?.state === "missing") {
    onProgress?.(`Downloading srt ${SRT_VERSION}`);
    await cacheSrt(await srtDeno(), signal);
    installed.push("srt");
  }
  const { recipe, rebuild } = options;
  const ready = python ?? await buildPythonEnvironment({ recipe, rebuild, onProgress, signal });
  if (python === undefined) installed.push("Python environment");
  if (lacksData) {
    const requirements = DATA_PACKAGES.map(parseRequirement);
    const how = { sandbox, signal };
    await data((onLine) => PackageFolder.installCommon(ready, requirements, { ...how, onLine }));
    installed.push("data packages");
  }
  return { python: ready, installed };
}

/** Whether the data packages are installed. Throws if the Python cannot have them. */
async function hasData(
  python: PythonEnvironment | undefined,
  { rebuild = false }: SetUpOptions,
): Promise<boolean> {
  if (python?.managed === false) {
    throw new EnvironmentNotReadyError(
      `Cannot install packages for all workspaces: ${python.executable} is not the managed Python`,
      `${python.executable} -m pip install ${DATA_PACKAGES.join(" ")}`,
    );
  }
  if (python === undefined || rebuild) return false;
  const found = await listPackages(await PackageFolder.common(python));
  const names = new Set(found.map(({ name }) => normalized(name)));
  return DATA_PACKAGES.every((name) => names.has(name));
}

/** The Python that already exists. Throws if a named one is unusable. */
async function presentPython(options: SetUpOptions): Promise<PythonEnvironment | undefined> {
  const named = options.python ??
    (options.recipe === undefined ? Deno.env.get("IPYBOX_PYTHON") || undefined : undefined);
  if (named !== undefined) return await findPython({ python: named });
  return options.rebuild ? undefined : await readManaged(options.recipe);
}

async function packagesLine(tools: readonly SystemTool[]): Promise<string> {
  const manager = await findPackageManager();
  const packages = packagesOf(tools, manager);
  return `system packages: ${packages.join(", ")} (${manager?.name ?? "no package manager known"})`;
}
