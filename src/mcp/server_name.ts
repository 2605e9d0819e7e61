/** Python's keywords that match {@linkcode SERVER_NAME}: none of them can be imported. */
const PYTHON_KEYWORDS: readonly string[] = (
  "and as assert async await break class continue def del elif else except finally for from global " +
  "if import in is lambda nonlocal not or pass raise return try while with yield"
).split(" ");

/** The runtime's package lies beside the generated ones; `ipybox` is who asks for shell commands. */
const RESERVED: readonly string[] = ["ipybox", "ipybox_runtime"];

const MAX_LENGTH = 64;
const SERVER_NAME = /^[a-z_][a-z0-9_]*$/;

/**
 * Checks that a name can be a registered server's. It becomes a folder and a Python package, so it
 * must not be able to become anything else.
 */
export function checkServerName(name: string): void {
  const reason = whyInvalid(name);
  if (reason !== undefined) {
    const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name);
    const valid = serverNameFrom(name);
    const such = valid === undefined ? "" : `; "${valid}" would do`;
    throw new TypeError(`Invalid MCP server name ${shown}: ${reason}${such}`);
  }
}

/** Whether a name can be a registered server's. */
export function isServerName(name: string): boolean {
  return whyInvalid(name) === undefined;
}

/** The name that a server can be registered by, where another program calls it as it likes. */
export function serverNameFrom(name: string): string | undefined {
  if (isServerName(name)) return name;
  const words = name.toLowerCase().split(/[^a-z0-9_]+/).filter((word) => word !== "");
  const joined = words.join("_").replace(/^(?=[0-9])/, "_").slice(0, MAX_LENGTH);
  return [joined, `${joined}_server`].find((candidate) =>
    /[a-z0-9]/.test(joined) && isServerName(candidate)
  );
}

function whyInvalid(name: string): string | undefined {
  if (!SERVER_NAME.test(name) || name.length > MAX_LENGTH) {
    return "use lower-case letters, digits and _, not a digit first, at most " +
      `${MAX_LENGTH} characters`;
  }
  if (PYTHON_KEYWORDS.includes(name)) return "it is a Python keyword";
  if (RESERVED.includes(name) || name.startsWith("__")) return "it is reserved";
  return undefined;
}
