import type { CodeExecutorOptions } from "../executor/options.ts";
import { findPython } from "../python/environment.ts";
import { PackageFolder } from "../python/packages.ts";

/**
 * Adds the packages that were installed for a workspace, where there are any.
 *
 * @param options Options to start an executor with.
 * @returns The same, with these packages.
 * @throws {EnvironmentNotReadyError} There is no Python for the executor.
 */
export async function withPackages(
  options: CodeExecutorOptions & { readonly workspace: string },
): Promise<CodeExecutorOptions> {
  const { workspace, python, log } = options;
  const found = await findPython({ python, workspace, log });
  const packagesDir = await PackageFolder.find(workspace, found);
  return { ...options, python: found.executable, packagesDir };
}
