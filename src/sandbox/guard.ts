import { asset } from "../assets/mod.ts";

/**
 * Has a command look first, from inside, whether its sandbox holds. Kernels have a launcher that does
 * this.
 *
 * @param command The command, by its path, and its arguments.
 * @param folders What only the host sees, and the command's working directory.
 * @returns The command that looks, and starts the other one.
 */
export async function guarded(
  command: readonly string[],
  { hostPrivate, cwd }: { readonly hostPrivate: string; readonly cwd: string },
): Promise<string[]> {
  const canary = `${hostPrivate}/canary`;
  await Deno.writeTextFile(canary, "nobody inside sees this", { mode: 0o600 });
  return ["/bin/sh", "-c", asset("wall/check.sh"), "sh", Deno.build.os, canary, cwd, ...command];
}
