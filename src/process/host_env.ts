/**
 * Reads a variable of the host's environment, without asking a person for the permission.
 *
 * @param name The variable.
 * @returns Its value; `undefined` when it is not set, or may not be read.
 */
export function hostEnv(name: string): string | undefined {
  const { state } = Deno.permissions.querySync({ name: "env", variable: name });
  return state === "granted" ? Deno.env.get(name) : undefined;
}
