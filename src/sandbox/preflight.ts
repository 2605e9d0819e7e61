/**
 * What the sandbox needs of this machine, what of it is missing, and how to get it.
 *
 * @module
 */
import { SandboxUnavailableError } from "../errors.ts";
import { explainNamespaceFailure, NAMESPACE_PROBE, readNamespaceSettings } from "./namespaces.ts";
import { installCommandHere, isRoot, type SystemTool } from "./system_packages.ts";

/** Something that ipybox needs of the machine, as it was found. */
export interface Prerequisite {
  /** What it is, such as `"bubblewrap"`. */
  readonly name: string;
  /** `"ok"`; `"warn"` for what works but is weaker than it could be; `"missing"`. */
  readonly state: "ok" | "warn" | "missing";
  /** Its version, where it has one that is known. */
  readonly version: string | null;
  /** What was found. */
  readonly detail: string;
  /** Where it is, where a program may want to know. */
  readonly path?: string;
  /** The command or the step that puts it right, unless it is `"ok"`. */
  readonly fix: string | null;
}

/** A program of the sandbox: its name for people, and how it is asked for its version. */
interface Tool {
  readonly name: string;
  readonly tool: SystemTool;
  readonly args: readonly string[];
}

const TOOLS: readonly Tool[] = [
  { name: "bubblewrap", tool: "bwrap", args: ["--version"] },
  { name: "socat", tool: "socat", args: ["-V"] },
  { name: "ripgrep", tool: "rg", args: ["--version"] },
];

/**
 * Checks what the sandbox needs: its programs, on Linux also working user namespaces, and whether
 * root runs it. Takes some 10 ms. `srt` itself is checked
 * by `checkSrt`.
 *
 * @returns What was found, in a fixed order.
 * @throws {Deno.errors.NotCapable} If Deno's permissions do not allow to run the programs.
 */
export async function checkSandbox(): Promise<Prerequisite[]> {
  switch (Deno.build.os) {
    case "linux": {
      const tools = await Promise.all(TOOLS.map(checkTool));
      const bubblewrap = tools.some(({ name, state }) => name === "bubblewrap" && state === "ok");
      return [...tools, ...(bubblewrap ? [await checkNamespaces()] : []), checkRoot()];
    }
    case "darwin": // the system's own sandbox does what bubblewrap and socat do on Linux
      return [...await Promise.all(TOOLS.filter(({ tool }) => tool === "rg").map(checkTool))];
    default:
      return [unsupported()];
  }
}

/**
 * Makes sure that this machine can start the sandbox.
 *
 * @throws {SandboxUnavailableError} If something is missing: it names all of it, and `fix` says how
 * to get it.
 */
export async function requireSandboxPrerequisites(): Promise<void> {
  const missing = (await checkSandbox()).filter(({ state }) => state === "missing");
  if (missing.length === 0) return;
  const tools = missingTools(missing);
  const rest = missing.filter(({ name }) => TOOLS.every((tool) => tool.name !== name));
  const fixes = rest.flatMap(({ fix }) => fix ?? []);
  if (tools.length > 0) fixes.unshift(await installCommandHere(tools)); // one command for them all
  throw new SandboxUnavailableError(
    `The sandbox cannot start: ${missing.map(({ detail }) => detail).join("; ")}`,
    fixes.join("\n"),
  );
}

/** The programs among prerequisites that are missing. */
export function missingTools(prerequisites: readonly Prerequisite[]): SystemTool[] {
  const missing = prerequisites.filter(({ state }) => state === "missing");
  return TOOLS.filter(({ name }) => missing.some((item) => item.name === name))
    .map(({ tool }) => tool);
}

async function checkTool({ name, tool, args }: Tool): Promise<Prerequisite> {
  const output = await run(tool, args);
  if (output === undefined) {
    const detail = `${tool} is not on the PATH`;
    return { name, state: "missing", version: null, detail, fix: await installCommandHere([tool]) };
  }
  const version = /(?<!\d)\d+(\.\d+)+/.exec(output.stdout)?.[0] ?? null;
  return { name, state: "ok", version, detail: `${tool} is on the PATH`, fix: null };
}

async function checkNamespaces(): Promise<Prerequisite> {
  const common = { name: "user namespaces", version: null } as const;
  const output = await run("bwrap", NAMESPACE_PROBE);
  if (output?.success) return { ...common, state: "ok", detail: "bubblewrap works", fix: null };
  const reason = explainNamespaceFailure(output?.stderr ?? "", await readNamespaceSettings());
  return { ...common, state: "missing", ...reason };
}

function checkRoot(): Prerequisite {
  const common = { name: "ordinary user", version: null } as const;
  if (isRoot() !== true) return { ...common, state: "ok", detail: "not root", fix: null };
  return {
    ...common,
    state: "warn",
    detail: "runs as root: what breaks out of the sandbox is root, too",
    fix: "Run ipybox as another user",
  };
}

function unsupported(): Prerequisite {
  return {
    name: "sandbox",
    state: "missing",
    version: null,
    detail: `There is no sandbox for ${Deno.build.os}`,
    fix: "Use Linux, macOS or WSL 2, or run without a sandbox: --no-sandbox",
  };
}

/** A program's output, or `undefined` when there is no such program. */
async function run(
  command: string,
  args: readonly string[],
): Promise<{ success: boolean; stdout: string; stderr: string } | undefined> {
  try {
    const output = await new Deno.Command(command, { args: [...args], stdin: "null" }).output();
    const decoder = new TextDecoder();
    return {
      success: output.success,
      stdout: decoder.decode(output.stdout),
      stderr: decoder.decode(output.stderr),
    };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
