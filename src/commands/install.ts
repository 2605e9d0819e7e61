import { visible } from "../approval/call_text.ts";
import { findPython } from "../python/environment.ts";
import { PackageFolder } from "../python/packages.ts";
import { parseRequirement, type Requirement } from "../python/requirement.ts";
import { type Command, type CommandIo, EXIT, parseCommandLine, UsageError } from "./command.ts";
import { EXECUTOR, kernelOptions } from "./executor_options.ts";
import { MARK } from "./foreign_rows.ts";
import { workspaceOf } from "./shared.ts";

/** `ipybox install`: installs Python packages for the code of a workspace. */
export const install: Command = {
  name: "install",
  summary: "Install Python packages for a workspace's code",
  usage: "PACKAGE… [OPTIONS]",
  options: EXECUTOR,
  notes: [
    "A PACKAGE is a name with extras and versions if need be, or a Git repository.",
    "The installer runs in a sandbox. The packages are in your cache, for the code of",
    "this workspace only: that of `ipybox run`, `repl`, `actions` and `mcp`.",
    "",
    "Examples:",
    "",
    "  ipybox install pandas matplotlib",
    "  ipybox install 'httpx[http2]>=0.27' git+https://github.com/psf/requests@v2.32.3",
  ].join("\n"),
  run,
};

async function run(args: readonly string[], io: CommandIo): Promise<number> {
  const parsed = parseCommandLine(install, args, { min: 1, max: Infinity });
  const requirements = parsed.positional.map(requirementOf);
  const workspace = await workspaceOf(parsed);
  const { python, sandbox, log } = kernelOptions(parsed, io, workspace);
  const found = await findPython({ python, workspace, log });
  const packages = await PackageFolder.open(workspace, found, { sandbox, log });
  for (const requirement of requirements) {
    const { installed } = await packages.install(requirement, {
      signal: io.signal,
      onLine: (line) => io.err(MARK + visible(line)),
    });
    if (!installed) {
      io.err(`ipybox: ${visible(requirement.text)} was not installed`);
      return EXIT.failed;
    }
  }
  return EXIT.ok;
}

function requirementOf(text: string): Requirement {
  try {
    return parseRequirement(text);
  } catch (cause) {
    if (cause instanceof TypeError) throw new UsageError(cause.message, { cause });
    throw cause;
  }
}
