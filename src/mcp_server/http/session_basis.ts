import { dirname, join } from "node:path";
import { ConsentFile } from "../../approval/rules/consent_file.ts";
import { ConfigError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { folderUsage } from "../../files/folder_usage.ts";
import { lstatIfPresent } from "../../files/safe.ts";
import { readDotenv } from "../../mcp/env.ts";
import { withSettingsOf } from "../../mcp/launch.ts";
import type { ServerParams } from "../../mcp/params.ts";
import { buildPythonEnvironment } from "../../python/build.ts";
import { readManaged } from "../../python/managed.ts";
import { PackageFolder } from "../../python/packages.ts";
import { findHidden } from "../../sandbox/hidden.ts";
import { hostPython } from "../../sandbox/wall.ts";
import { ServerRegistry } from "../../servers/registry.ts";
import { unaskedStart } from "../../servers/start_evidence.ts";
import type { SessionOptions } from "../session.ts";

/** The basis of a workspace's sessions. */
interface SessionBasisOptions {
  readonly workspace: string;
  readonly session: SessionOptions;
}

/** The workspace's servers. The registry has no file, because a server could write to it. */
export async function sessionServers(
  { workspace, session: { servers, log } }: SessionBasisOptions,
): Promise<ServerRegistry> {
  const registry = await ServerRegistry.open({ workspace, servers });
  const own = registry.entries.filter(([name, params]) => registry.isOwn(name, params));
  const others = registry.names.filter((name) => !own.some(([other]) => other === name));
  if (others.length > 0) {
    // Only the operator decides on servers, not clients.
    log?.warn(
      `Not available in sessions because you have not registered them: ${others.join(", ")} in ` +
        `${registry.path}. Review and accept them with \`ipybox trust\``,
    );
  }
  const settled: Record<string, ServerParams> = {};
  for (const entry of own) {
    const [name] = entry;
    try {
      const isGiven = registry.isGiven(...entry);
      const options = { workspace, log: silentLogger };
      if (!isGiven && await unaskedStart(registry, entry, options) === undefined) {
        log?.warn(
          `Not available in sessions: ${name}. Its files in the workspace, or its sandbox settings, ` +
            "have changed since you registered it. Review and accept them with `ipybox trust`",
        );
        continue;
      }
      settled[name] = withSettingsOf(workspace, entry);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      log?.warn(`Not available in sessions: ${name}. ${error.message}`);
    }
  }
  return await ServerRegistry.open({ servers: settled });
}

/** A text that differs if a session created now would be based on anything else. */
export async function basisOf(options: SessionBasisOptions): Promise<string> {
  const { workspace, session } = options;
  const servers = await sessionServers({ ...options, session: { ...session, log: silentLogger } });
  const { sandbox } = session;
  const { config, project } = typeof sandbox === "object" ? sandbox : {};
  return JSON.stringify([
    servers.entries,
    await folderUsage(join(workspace, "mcptools")),
    await readDotenv(workspace),
    await (await ConsentFile.open(workspace)).list(),
    await pythonOf(session),
    await entriesOf(PackageFolder.folder(workspace)),
    await entriesOf(PackageFolder.commonFolder()),
    typeof config === "string" ? await Deno.readTextFile(config) : null,
    project === undefined ? null : await hiddenIn(project, workspace),
  ]);
}

/**
 * Builds the managed Python if sessions need it and it is missing. An earlier basis would differ.
 */
export async function readyPython(
  { placement, python, log }: SessionBasisOptions["session"],
  signal: AbortSignal,
): Promise<void> {
  if (placement !== undefined || namedPython(python) !== undefined) return;
  await buildPythonEnvironment({ onProgress: (line) => log?.warn(line), signal });
}

/** The files that a session hides. A replacement is another file, and not hidden. */
async function hiddenIn(project: string, workspace: string): Promise<readonly unknown[]> {
  const folder = await Deno.realPath(project);
  const python = await hostPython(workspace);
  const { paths } = await findHidden(folder, { python });
  return await Promise.all(paths.map(async (path) => [path, await fileOf(path)]));
}

/** Identifies the Python. A rebuilt one differs. */
async function pythonOf(
  { python, placement }: SessionBasisOptions["session"],
): Promise<readonly unknown[]> {
  if (placement !== undefined) return [];
  const executable = namedPython(python) ?? (await readManaged())?.executable;
  if (executable === undefined) return [];
  const settings = join(dirname(dirname(executable)), "pyvenv.cfg");
  return [executable, await fileOf(executable), await fileOf(settings)];
}

function namedPython(python: string | undefined): string | undefined {
  return python ?? (Deno.env.get("IPYBOX_PYTHON") || undefined);
}

async function entriesOf(folder: string): Promise<readonly unknown[]> {
  if (await lstatIfPresent(folder) === undefined) return [];
  const names = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).sort();
  return await Promise.all(names.map(async (name) => [name, await fileOf(join(folder, name))]));
}

/** Identifies the file at a path. */
async function fileOf(path: string): Promise<readonly unknown[]> {
  const info = await lstatIfPresent(path);
  return [info?.dev, info?.ino, info?.birthtime?.getTime()];
}
