import { ConfigError } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { ifPresent } from "../files/safe.ts";

/** The devices of GPUs, by what users call them. */
const KINDS: Readonly<Record<string, RegExp>> = {
  amd: /^(?:kfd|dri)$/,
  intel: /^dri$/,
  nvidia: /^nvidia/,
};

/** The paths of devices that are named by kind or by path. */
export async function devicesOf(names: readonly string[]): Promise<string[]> {
  if (names.length === 0) return [];
  const there = await presentDevices();
  const found = names.map((name) => {
    const kind = KINDS[name];
    if (kind === undefined && !/^\/dev\/[^.]/.test(name)) {
      throw new ConfigError(
        `Unknown device "${name}": name ${Object.keys(KINDS).join(", ")}, or a path in /dev`,
      );
    }
    const paths = there.filter((path) =>
      kind ? kind.test(path.slice("/dev/".length)) : path === name
    );
    if (paths.length > 0 || (kind === undefined && name.indexOf("/", 5) > 0)) {
      return kind ? paths : [name];
    }
    throw new ConfigError(
      `There is no device "${name}" on this machine: \`ipybox doctor\` lists those there are`,
    );
  });
  return [...new Set(found.flat())];
}

/** The kinds of GPU devices that this machine has. */
export async function presentKinds(): Promise<string[]> {
  const there = await presentDevices();
  return Object.entries(KINDS)
    .filter(([, kind]) => there.some((path) => kind.test(path.slice("/dev/".length))))
    .map(([name]) => name);
}

async function presentDevices(): Promise<string[]> {
  if (!mayRead("/dev")) return [];
  const entries = await ifPresent(Array.fromAsync(Deno.readDir("/dev"))) ?? [];
  return entries.map(({ name }) => `/dev/${name}`).sort();
}
