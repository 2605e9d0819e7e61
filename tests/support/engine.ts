/**
 * The container engine that tests run kernels with, where there is one.
 *
 * @module
 */

/** The engine that tests use: `docker`, unless `IPYBOX_TEST_ENGINE` says `podman`. */
import { runProgram } from "./program.ts";
export const engineName: "docker" | "podman" = Deno.env.get("IPYBOX_TEST_ENGINE") === "podman"
  ? "podman"
  : "docker";

/** The image that tests use; `IPYBOX_KERNEL_IMAGE` names another one. */
export const kernelImage: string = Deno.env.get("IPYBOX_KERNEL_IMAGE") ?? "ipybox-kernel";

/** Why no kernel can run in a container here; `undefined` where one can. */
export function whyNoEngine(): Promise<string | undefined> {
  return whyNoImage(kernelImage, "docs/placements.md says how it is built");
}

/** Why an image cannot be used here; `undefined` where it can. */
export async function whyNoImage(image: string, origin: string): Promise<string | undefined> {
  try {
    const info = await engine("info");
    if (!info.success) return `no engine answers ${engineName}`;
    if ((await engine("image", "inspect", image)).success) return undefined;
    return `there is no image ${image}: ${origin}`;
  } catch (error) {
    return `${engineName} cannot be run: ${error}`;
  }
}

/** Runs a command of the engine. */
export async function engine(
  ...args: readonly string[]
): Promise<{ readonly success: boolean; readonly text: string }> {
  const { success, stdout, stderr } = await runProgram(engineName, args);
  return { success, text: stdout + stderr };
}
