import type { SeenMount } from "../placement/boot.ts";
import type { Mount } from "../placement/carrier.ts";
import { isInside } from "../process/trusted_path.ts";
import { listedPath } from "../sandbox/wall.ts";

/** What mounts must look like. Engines follow links, which code of a session may have put there. */
export function seenMounts(mounts: readonly Mount[], mountInfo: string): SeenMount[] {
  const here = mountInfo.split("\n").map((line) => {
    const [, , device = "", root = "", point = "", ...rest] = line.split(" ");
    return { device: `${device}/${rest[rest.indexOf("-") + 1] ?? ""}`, root, point };
  }).filter(({ point }) => point !== "");
  return mounts.map(({ source, target }) => {
    const path = listedPath(source);
    const { device, root, point } = here.reduce(
      (found, mount) =>
        isInside(path, mount.point) && mount.point.length >= found.point.length ? mount : found,
      { device: "", root: "", point: "" },
    );
    const shown = `${root}/${path.slice(point.length)}`.replace(/\/+/g, "/").replace(
      /(?<=.)\/$/,
      "",
    );
    return [listedPath(target), device, shown];
  });
}
