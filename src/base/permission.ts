/** Whether Deno's permissions allow something optional. Otherwise, Deno would stop and ask at a terminal. */
export function isGranted(permission: Deno.PermissionDescriptor): boolean {
  return Deno.permissions.querySync(permission).state === "granted";
}

/** Whether the program has all permissions (`-A`). Deno requires them for some system files. */
export function isAllGranted(): boolean {
  return (["read", "write", "net", "env", "sys", "run", "ffi"] as const)
    .every((name) => isGranted({ name }));
}

/** Whether Deno's permissions allow reading a path. */
export function mayRead(path: string): boolean {
  return isGranted({ name: "read", path });
}

/** Whether Deno's permissions allow reading and writing a folder. */
export function mayUse(folder: string): boolean {
  return mayRead(folder) && isGranted({ name: "write", path: folder });
}

/** Reads an environment variable of the host without prompting for permission. */
export function hostEnv(name: string): string | undefined {
  return isGranted({ name: "env", variable: name }) ? Deno.env.get(name) : undefined;
}

/** The values of those variables that are set and that Deno's permissions allow reading. */
export function hostEnvs(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => {
    const value = hostEnv(name);
    return value === undefined ? [] : [[name, value]];
  }));
}
