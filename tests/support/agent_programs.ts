/**
 * Agent programs from npm, as files that can be started. Deno fetches them, and checks what it
 * fetches, so that no Node is needed.
 *
 * @module
 */
import { denoDirectory } from "./temp_cache.ts";

/** A program, or why there is none on this machine. */
export type Fetched = { readonly path: string } | { readonly missing: string };

/** How long the largest may take to arrive. */
const FETCH_MS = 240_000;

/**
 * Fetches a program.
 *
 * @param name Its package.
 * @param version The package's version.
 * @param file The program in the package.
 * @returns Where it is, or why it cannot be used here.
 */
export async function fetchProgram(name: string, version: string, file: string): Promise<Fetched> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["cache", "--quiet", "--no-lock", "--no-config", `npm:${name}@${version}`],
    stdin: "null",
    signal: AbortSignal.timeout(FETCH_MS),
  }).output();
  if (!success) {
    const [line] = new TextDecoder().decode(stderr).trim().split("\n", 1);
    return { missing: `${name} cannot be fetched: ${line || "it takes too long"}` };
  }
  const packages = `${await denoDirectory()}/npm`;
  for await (const registry of Deno.readDir(packages)) {
    const path = `${packages}/${registry.name}/${name}/${version}/${file}`;
    if (await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return { path };
  }
  return { missing: `${name} has no ${file}` };
}

/** The name that npm packages with programs have for this machine, such as `linux-x64`. */
export const PLATFORM: string = `${Deno.build.os}-${
  Deno.build.arch === "x86_64" ? "x64" : "arm64"
}`;
