import type { Mount } from "./carrier.ts";

/**
 * What a mount must look like from inside a container, in the words of `/proc/self/mountinfo`: where it
 * is, its device, and what of that it shows.
 */
export type SeenMount = readonly [point: string, device: string, root: string];

/**
 * Says what mounts must look like, by this machine's own `/proc/self/mountinfo`: an engine follows links,
 * which code of another session may have put in the place of what was found.
 */
export function seenMounts(mounts: readonly Mount[], mountInfo: string): SeenMount[] {
  const here = mountInfo.split("\n").map((line) => {
    const [, , device = "", root = "", point = ""] = line.split(" ");
    return { device, root, point };
  }).filter(({ point }) => point !== "");
  return mounts.map(({ source, target }) => {
    const path = escaped(source);
    const { device, root, point } = here.reduce(
      (found, mount) =>
        contains(mount.point, path) && mount.point.length >= found.point.length ? mount : found,
      { device: "", root: "", point: "" },
    );
    const shown = `${root}/${path.slice(point.length)}`.replace(/\/+/g, "/").replace(
      /(?<=.)\/$/,
      "",
    );
    return [escaped(target), device, shown];
  });
}

function contains(point: string, path: string): boolean {
  return point === "/" || path === point || path.startsWith(`${point}/`);
}

/** A path as it is written in the list. */
function escaped(path: string): string {
  return path.replaceAll(
    /[ \t\n\\]/g,
    (char) => `\\${char.charCodeAt(0).toString(8).padStart(3, "0")}`,
  );
}
