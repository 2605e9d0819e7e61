import { z } from "zod";

/**
 * The rule for shell commands in a kernel: no rule, approval by the host, or approval with every
 * other way to start a process blocked.
 */
export type ShellGuard = "none" | "approval" | "escape";

/**
 * How the reader of the output installs packages: with a command, in a session, with a tool or a
 * method.
 */
export type Installer = "command" | "session" | "tool" | "method";

/** The kernel's configuration, sent once before any code runs in it. */
export interface BootstrapConfig {
  /** Where code starts; the kernel's own working directory when it is not given. */
  readonly workingDir?: string;
  /** Whether each execution starts in that directory again. */
  readonly restoreWorkingDir: boolean;
  /** The rule for shell commands. */
  readonly shell: ShellGuard;
  /** Whether code may fail because of the sandbox. */
  readonly sandboxed: boolean;
  /** How a missing package is installed, if it can be. */
  readonly installer?: Installer;
  /** Opens the tool server to code; a kernel started ahead gets it only when it begins. */
  readonly toolToken?: string;
}

/** The expression that sets up a kernel. It has no value, so that the user's namespace stays empty. */
export function bootstrapCode(config: BootstrapConfig): string {
  return callOf("start", config);
}

/** The statement that puts a spare kernel into use. */
export function beginCode(toolToken: string | undefined): string {
  return callOf("begin", toolToken === undefined ? {} : { toolToken });
}

/** The expression that inspects code. */
export function inspectionCode(code: string): string {
  return `__import__("ipybox_runtime.kernel.check", fromlist=["look"]).look(${literal(code)})`;
}

const inspectionReply = z.object({
  user_expressions: z.object({ look: z.object({ data: z.object({ "text/plain": z.string() }) }) }),
});

/** Reads the answer of {@linkcode inspectionCode}, which code can forge. */
export function inspectionAnswer(reply: unknown): string {
  const answer = inspectionReply.safeParse(reply);
  if (!answer.success) throw new Error("The kernel could not analyze the code");
  return answer.data.user_expressions.look.data["text/plain"];
}

function callOf(name: "start" | "begin", config: unknown): string {
  return `__import__("ipybox_runtime.kernel", fromlist=["${name}"]).${name}(${
    literal(JSON.stringify(config))
  })`;
}

/** Writes a text as a Python string literal, which a JSON string is, too. */
function literal(text: string): string {
  // IPython takes some Unicode characters for line breaks, so everything beyond ASCII is escaped.
  return JSON.stringify(text).replace(/[^\x20-\x7e]/gu, (character) => {
    // Python does not combine two surrogates into one character.
    const digits = (character.codePointAt(0) ?? 0).toString(16);
    return digits.length > 4 ? `\\U${digits.padStart(8, "0")}` : `\\u${digits.padStart(4, "0")}`;
  });
}
