/** Python's keywords that match {@linkcode SERVER_NAME}: none of them can be imported. */
const PYTHON_KEYWORDS: readonly string[] = (
  "and as assert async await break class continue def del elif else except finally for from global " +
  "if import in is lambda nonlocal not or pass raise return try while with yield"
).split(" ");

/** The runtime's package lies beside the generated ones; `ipybox` is who asks for shell commands. */
const RESERVED: readonly string[] = ["ipybox", "ipybox_runtime"];

const SERVER_NAME = /^[a-z_][a-z0-9_]{0,63}$/;

/**
 * Checks that a name can be a registered server's. It becomes a folder and a Python package, so it
 * must not be able to become anything else.
 *
 * @param name The name.
 * @throws {TypeError} It is not a lower-case Python identifier of at most 64 characters, or it is a
 * keyword or reserved.
 */
export function checkServerName(name: string): void {
  const reason = whyInvalid(name);
  if (reason !== undefined) {
    const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
    throw new TypeError(`Invalid MCP server name ${shown}: ${reason}`);
  }
}

/** Whether a name can be a registered server's. */
export function isServerName(name: string): boolean {
  return whyInvalid(name) === undefined;
}

function whyInvalid(name: string): string | undefined {
  if (!SERVER_NAME.test(name)) {
    return "use lower-case letters, digits and _, not a digit first, at most 64 characters";
  }
  if (PYTHON_KEYWORDS.includes(name)) return "it is a Python keyword";
  if (RESERVED.includes(name) || name.startsWith("__")) return "it is reserved";
  return undefined;
}
