import { dirname, join } from "node:path";
import { programsOf } from "../sandbox/installation.ts";
import type { PythonEnvironment } from "./managed.ts";

/** The folder of an environment's packages. */
export function sitePackagesOf(prefix: string, python: PythonEnvironment): string {
  return join(prefix, "lib", `python${minorVersion(python)}`, "site-packages");
}

/**
 * The folders from an environment down to its packages, and its folder of programs. Installers
 * write to each.
 */
export function packageLevels(sitePackages: string): string[] {
  const version = dirname(sitePackages);
  const lib = dirname(version);
  return [dirname(lib), lib, version, sitePackages, ...programsOf(sitePackages)];
}

/** The part of the version that determines which packages an interpreter can use. */
export function minorVersion({ version }: PythonEnvironment): string {
  return version.split(".").slice(0, 2).join(".");
}
