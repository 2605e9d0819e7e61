/** What the kernel is told once, before any code runs in it. */
export interface BootstrapConfig {
  /** Where code starts; the kernel's own working directory when it is not given. */
  readonly workingDir?: string;
  /** Whether each execution starts in that directory again. */
  readonly restoreWorkingDir: boolean;
}

/**
 * The one statement that sets up a kernel, by the module `ipybox_runtime.kernel` on its
 * `PYTHONPATH`. It is an expression without a value, so that the user's namespace stays empty.
 *
 * @param config What the kernel is told.
 * @returns Python code.
 */
export function bootstrapCode(config: BootstrapConfig): string {
  // A JSON text in a JSON string is also a Python string: the escapes of JSON are a part of Python's.
  const literal = JSON.stringify(JSON.stringify(config));
  return `__import__("ipybox_runtime.kernel", fromlist=["start"]).start(${literal})`;
}
