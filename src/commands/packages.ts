import { PackageInstallError } from "../base/errors.ts";
import { printable } from "./terminal/columns.ts";
import {
  type Command,
  type CommandIo,
  EXIT,
  type ParsedArgs,
  printTable,
  UsageError,
} from "./command.ts";
import { EXECUTOR } from "./executor_options.ts";
import { normalized } from "../python/requirement.ts";
import { type InstalledPackage, listPackages } from "../python/packages.ts";
import { packagesOf } from "./install.ts";

export const command: Command = {
  usage: "[OPTIONS]\nremove NAME… [OPTIONS]",
  positional: { max: Infinity },
  options: {
    json: { help: "Print the packages and their folder as JSON" },
    ...EXECUTOR,
  },
  notes: [
    "Lists the packages that `ipybox install` installed, and marks dependencies,",
    "and those of `ipybox setup --data`, which belong to all workspaces.",
    "Removing a package does not remove its dependencies.",
    "",
    "Examples:",
    "",
    "  ipybox packages",
    "  ipybox packages remove pandas",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [action, ...names] = parsed.positional;
  const folder = await packagesOf(parsed, io);
  const installed = await folder.list();
  const known = new Map(installed.map((each) => [normalized(each.name), each]));
  const shared = (await listPackages(folder.shared)).filter(({ name }) =>
    !known.has(normalized(name))
  );
  if (action === undefined) {
    const { path } = folder;
    if (parsed.has("json")) {
      io.out(JSON.stringify({ path, packages: installed, shared }, null, 2) + "\n");
    } else if (installed.length + shared.length === 0) {
      io.err("No packages are installed in this workspace: see `ipybox install --help`");
    } else {
      const row = ({ name, version }: InstalledPackage, note: string): [string, string] => [
        printable(name),
        `${printable(version)}${note}`,
      ];
      const own = installed.map((each) =>
        row(each, each.requested ? "" : "  (needed by another package)")
      );
      printTable([...own, ...shared.map((each) => row(each, "  (of all workspaces)"))], io);
    }
    return EXIT.ok;
  }
  if (action !== "remove") throw new UsageError(`Unknown action "${action}": use remove NAME…`);
  if (names.length === 0) throw new UsageError("Specify packages: ipybox packages remove NAME…");
  const chosen = names.map((name) => {
    const found = known.get(normalized(name));
    if (found !== undefined) return found;
    throw new UsageError(
      shared.some((each) => normalized(each.name) === normalized(name))
        ? `Cannot remove "${name}": it belongs to all workspaces (\`ipybox setup --data\`)`
        : `No package "${name}": see \`ipybox packages\``,
    );
  });
  await folder.uninstall(chosen.map(({ name }) => name), { signal: io.signal });
  const left = new Set((await folder.list()).map(({ name }) => name));
  const kept = chosen.filter(({ name }) => left.has(name)).map(({ name }) => name);
  if (kept.length > 0) throw new PackageInstallError(`${kept.join(" ")} was not removed`, "");
  io.err(
    `Removed ${printable(chosen.map(({ name, version }) => `${name} ${version}`).join(", "))}`,
  );
  return EXIT.ok;
}
