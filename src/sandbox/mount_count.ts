import { relative } from "node:path";
import { ConfigError } from "../errors.ts";
import type { SandboxSettings } from "./policy.ts";
import { isInside } from "../process/trusted_path.ts";

/** bubblewrap takes 9000 arguments, a mount takes three, and `srt` itself needs a few hundred. */
const MAX_MOUNTS = 2800;

/** How many examples the error has. */
const EXAMPLES = 3;

/**
 * Refuses settings that bubblewrap could not take, as code can make files that have to be protected.
 */
export function refuseTooManyMounts({ filesystem }: SandboxSettings, workspace: string): void {
  const { denyRead, denyWrite, allowRead, allowWrite } = filesystem;
  const mounts = [...denyRead, ...denyWrite, ...allowRead, ...allowWrite].map(textOf);
  if (mounts.length <= MAX_MOUNTS) return;
  const inside = [...new Set(mounts)].filter((path) =>
    path !== workspace && isInside(path, workspace)
  );
  const folder = crowdedFolder(workspace, inside);
  const most = inside.filter((path) => isInside(path, folder));
  const examples = most.slice(0, EXAMPLES).map((path) => relative(folder, path)).join(", ");
  throw new ConfigError(
    `Cannot use ${workspace} as workspace: ${most.length} files and folders in ${folder} ` +
      `(${examples}, …) have to be kept from code, more than a sandbox can: remove what is not ` +
      "needed there",
  );
}

function textOf(path: SandboxSettings["filesystem"]["denyRead"][number]): string {
  return typeof path === "string" ? path : path.path;
}

/** The deepest folder that has more than half of the paths. */
function crowdedFolder(root: string, paths: readonly string[]): string {
  let folder = root;
  while (true) {
    const counts = new Map<string, number>();
    for (const path of paths) {
      if (!path.startsWith(`${folder}/`)) continue;
      const [name = "", ...rest] = path.slice(folder.length + 1).split("/");
      if (rest.length > 0) counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const next = [...counts].find(([, count]) => count > paths.length / 2);
    if (next === undefined) return folder;
    folder = `${folder}/${next[0]}`;
  }
}
