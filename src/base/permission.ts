/**
 * Whether Deno's permissions allow something. What ipybox can do without is asked for here first: Deno
 * would stop a script at a terminal for a prompt, and count the time as ours.
 */
export function isGranted(permission: Deno.PermissionDescriptor): boolean {
  return Deno.permissions.querySync(permission).state === "granted";
}

/** Whether this program runs with all permissions, as with `-A`, which some files of the system need. */
export function isAllGranted(): boolean {
  return (["read", "write", "net", "env", "sys", "run", "ffi"] as const)
    .every((name) => isGranted({ name }));
}

/** Whether Deno's permissions allow to look at a path, like {@linkcode isGranted}. */
export function mayRead(path: string): boolean {
  return isGranted({ name: "read", path });
}

/**
 * Whether Deno's permissions allow to read and to write in a folder, like {@linkcode isGranted}.
 */
export function mayUse(folder: string): boolean {
  return mayRead(folder) && isGranted({ name: "write", path: folder });
}

/** Reads a variable of the host's environment, without asking a person for the permission. */
export function hostEnv(name: string): string | undefined {
  return isGranted({ name: "env", variable: name }) ? Deno.env.get(name) : undefined;
}
