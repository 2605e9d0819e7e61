import { asset } from "../assets/mod.ts";
import type { EffectiveLimits } from "./limits.ts";

/** What {@linkcode guarded} is told. */
export interface GuardOptions {
  /** What only the host sees. It exists. */
  readonly hostPrivate: string;
  /** The command's working directory. */
  readonly cwd: string;
  /** What each of its processes may take. */
  readonly limits?: EffectiveLimits;
}

/** What POSIX counts the sizes of files in. */
const BLOCK = 512;

/**
 * Has a command look first, from inside, whether its sandbox holds. Kernels have a launcher that does
 * this.
 */
export async function guarded(
  command: readonly string[],
  { hostPrivate, cwd, limits }: GuardOptions,
): Promise<string[]> {
  const canary = `${hostPrivate}/canary`;
  await Deno.writeTextFile(canary, "nobody inside sees this", { mode: 0o600 });
  const ulimits = [
    inUnits(limits?.memoryBytes, 1024),
    inUnits(limits?.processes, 1),
    inUnits(limits?.fileBytes, BLOCK),
  ];
  const check = ["-c", asset("wall/check.sh"), "sh", Deno.build.os, canary, cwd, ...ulimits];
  return ["/bin/sh", ...check, ...command];
}

function inUnits(limit: number | null | undefined, unit: number): string {
  return typeof limit === "number" ? String(Math.ceil(limit / unit)) : "unlimited";
}
