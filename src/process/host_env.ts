import { isGranted } from "./permission.ts";

/** Reads a variable of the host's environment, without asking a person for the permission. */
export function hostEnv(name: string): string | undefined {
  return isGranted({ name: "env", variable: name }) ? Deno.env.get(name) : undefined;
}
