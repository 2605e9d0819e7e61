import { resolve } from "node:path";
import { ConfigError } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { ifPresent } from "../files/safe.ts";
import { lstatIfAllowed } from "../process/trusted_path.ts";

/** The devices of GPUs, by the names that users give. */
const KINDS: Readonly<Record<string, RegExp>> = {
  amd: /^(?:kfd|dri)$/,
  intel: /^dri$/,
  nvidia: /^nvidia/,
};

/** The paths of devices that are named by kind or by path. */
export async function devicesOf(names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(names.map(async (name) => {
    const kind = KINDS[name];
    const path = resolve("/", name);
    if (kind === undefined && (path !== name || !path.startsWith("/dev/"))) {
      throw new ConfigError(
        `Unknown device "${name}": name ${Object.keys(KINDS).join(", ")}, or a path in /dev`,
      );
    }
    const paths = kind !== undefined
      ? await devicesOfKind(kind)
      : await lstatIfAllowed(path) === undefined
      ? []
      : [path];
    if (paths.length > 0) return paths;
    throw new ConfigError(
      `There is no device "${name}" on this machine: \`ipybox doctor\` lists the existing ones`,
    );
  }));
  return [...new Set(found.flat())];
}

/** The kinds of GPU devices that this machine has. */
export async function presentKinds(): Promise<string[]> {
  const found = await Promise.all(Object.values(KINDS).map(devicesOfKind));
  return Object.keys(KINDS).filter((_, index) => found[index]?.length);
}

async function devicesOfKind(kind: RegExp): Promise<string[]> {
  if (!mayRead("/dev")) return [];
  const entries = await ifPresent(Array.fromAsync(Deno.readDir("/dev"))) ?? [];
  return entries.filter(({ name }) => kind.test(name)).map(({ name }) => `/dev/${name}`).sort();
}
