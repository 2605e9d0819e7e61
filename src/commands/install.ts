import { visible } from "../approval/call_text.ts";
import { PackageInstallError } from "../base/errors.ts";
import { findPython } from "../python/environment.ts";
import { PackageFolder } from "../python/packages.ts";
import { parseRequirement, parseRequirements, type Requirement } from "../python/requirement.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs, UsageError } from "./command.ts";
import { EXECUTOR, kernelOptions } from "./executor_options.ts";
import { MARK, marked } from "./foreign_rows.ts";
import { readUserFile, workspaceOf } from "./shared.ts";
import { terminalSize } from "./terminal/columns.ts";

export const command: Command = {
  usage: "PACKAGE… [OPTIONS]\n-r FILE [PACKAGE…] [OPTIONS]",
  positional: { max: Infinity },
  options: {
    requirements: {
      value: "FILE",
      short: "r",
      many: true,
      help: "Install the packages listed in a requirements file",
    },
    ...EXECUTOR,
    verbose: { short: "v", help: "Show the installer's output, and log to stderr" },
  },
  notes: [
    "A PACKAGE is a name, optionally with extras and versions, or a Git repository.",
    "Packages are resolved together; those that already satisfy the requirements are",
    "not reinstalled. The installer runs in a sandbox. Packages are stored in your",
    "cache and belong to this workspace: `ipybox run`, `repl`, `actions` and `mcp`",
    "use them, and so do programs that start a CodeExecutor here. `ipybox packages`",
    "lists and removes them.",
    "",
    "Examples:",
    "",
    "  ipybox install pandas matplotlib",
    "  ipybox install -r requirements.txt",
    "  ipybox install 'httpx[http2]>=0.27' git+https://github.com/psf/requests@v2.32.3",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const requirements = await requirementsOf(parsed);
  const packages = await packagesOf(parsed, io);
  await showInstallation(
    (onLine) => packages.install(requirements, { signal: io.signal, onLine }),
    { io, verbose: parsed.has("verbose") },
  );
  return EXIT.ok;
}

/** An installation, which resolves to one line that names the installed packages. */
export type Installation = (onLine: (line: string) => void) => Promise<string>;

/** Shows the installed packages in one line, preceded at a terminal by the installer's latest output. */
export async function showInstallation(
  install: Installation,
  { io, verbose }: { readonly io: CommandIo; readonly verbose: boolean },
): Promise<void> {
  const start = performance.now();
  const all = (line: string): void => io.err(MARK + visible(line));
  const isLive = !verbose && io.stderrIsTerminal && Deno.env.get("TERM") !== "dumb";
  const row = isLive ? "\r\x1b[K" : "";
  const latest = (line: string): void => {
    if (isLive) io.errText(row + marked(visible(line), terminalSize().columns - 1)[0]);
  };
  try {
    const summary = await install(verbose ? all : latest);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    io.err(`${row}${visible(summary)} (${seconds} s)`);
  } catch (error) {
    io.errText(row);
    if (error instanceof PackageInstallError && !verbose) {
      error.output.trimEnd().split("\n").forEach(all);
    }
    throw error;
  }
}

export async function packagesOf(parsed: ParsedArgs, io: CommandIo): Promise<PackageFolder> {
  const workspace = await workspaceOf(parsed);
  const { python: named, sandbox, log } = kernelOptions(parsed, io, workspace);
  const python = await findPython({ python: named, workspace, log });
  const shared = await PackageFolder.common(python);
  return await PackageFolder.open(workspace, python, { sandbox, shared, log });
}

async function requirementsOf(parsed: ParsedArgs): Promise<Requirement[]> {
  try {
    const files = await Promise.all(
      parsed.values("requirements").map(async (file) =>
        parseRequirements(await readUserFile(file), file)
      ),
    );
    const all = [...files.flat(), ...parsed.positional.map(parseRequirement)];
    if (all.length > 0) return all;
  } catch (cause) {
    if (cause instanceof TypeError) throw new UsageError(cause.message, { cause });
    throw cause;
  }
  throw new UsageError(
    parsed.has("requirements")
      ? `${parsed.values("requirements").join(" and ")} lists no packages`
      : "Specify packages: ipybox install PACKAGE… or -r FILE",
  );
}
