/**
 * The sandbox's requirements on this machine, the missing ones, and how to install them.
 *
 * @module
 */
import { SandboxUnavailableError } from "../base/errors.ts";
import { mayRead } from "../base/permission.ts";
import { ControlGroup } from "../process/control_group.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { namedProgram, requireProgram } from "../process/program.ts";
import { type ProgramEnd, runProgram } from "../process/run_program.ts";
import { installCommandHere, isRoot, type SystemTool } from "./system_packages.ts";

/** Something that ipybox needs from the machine, and its state. */
export interface Prerequisite {
  /** Its name, such as `"bubblewrap"`. */
  readonly name: string;
  /** `"ok"`; `"warn"` if it works but is weaker than it could be; `"missing"`. */
  readonly state: "ok" | "warn" | "missing";
  /** Its version, if known. */
  readonly version: string | null;
  /** Describes its state. */
  readonly detail: string;
  /** Its path, if a program may need it. */
  readonly path?: string;
  /** The command or step that fixes it; `null` if it is `"ok"`. */
  readonly fix: string | null;
}

/** A program of the sandbox: its display name and the arguments that print its version. */
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
 * Checks what the sandbox needs: its programs, and on Linux also working user namespaces and
 * whether root runs it. Takes about 10 ms. `srt` itself is checked by `checkSrt`.
 */
export async function checkSandbox(): Promise<Prerequisite[]> {
  switch (Deno.build.os) {
    case "linux": {
      const tools = await Promise.all(TOOLS.map(checkTool));
      const bubblewrap = tools.some(({ name, state }) => name === "bubblewrap" && state === "ok");
      return [...tools, ...(bubblewrap ? [await checkNamespaces()] : []), checkRoot()];
    }
    case "darwin": // the system's own sandbox replaces bubblewrap and socat
      return await Promise.all(TOOLS.filter(({ tool }) => tool === "rg").map(checkTool));
    default:
      return [unsupported()];
  }
}

/** Makes sure that this machine can start the sandbox. */
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
  if (typeof output === "string") {
    const fix = await installCommandHere([tool]);
    return { name, state: "missing", version: null, detail: output, fix };
  }
  const version = /(?<!\d)\d+(\.\d+)+/.exec(output.stdout)?.[0] ?? null;
  return { name, state: "ok", version, detail: `${tool} is on the PATH`, fix: null };
}

async function checkNamespaces(): Promise<Prerequisite> {
  const common = { name: "user namespaces", version: null } as const;
  const output = await run("bwrap", NAMESPACE_PROBE);
  const stderr = typeof output === "string" ? output : output.success ? undefined : output.stderr;
  if (stderr === undefined) {
    return { ...common, state: "ok", detail: "bubblewrap works", fix: null };
  }
  const reason = explainNamespaceFailure(stderr, await readNamespaceSettings());
  return { ...common, state: "missing", ...reason };
}

/** Checks whether the processes of a session can be limited together. */
export async function checkSessionLimits(): Promise<Prerequisite> {
  const common = { name: "limits of a session", version: null } as const;
  await using waiting = ManagedProcess.spawn({ command: namedProgram("/bin/cat"), env: {} });
  const limits = { memoryBytes: 2 ** 30, processes: 100 };
  const group = await ControlGroup.take(waiting.pid, limits);
  await waiting.stop();
  await group?.[Symbol.asyncDispose]();
  const keeper = group?.keeper;
  if (keeper !== undefined) {
    const detail = `memory and processes of a session are limited as a whole, by ${keeper}`;
    return { ...common, state: "ok", detail, fix: null };
  }
  return {
    ...common,
    state: "ok",
    detail: "limits apply to each process: here, no control group can limit a session as a whole",
    fix: null,
  };
}

function checkRoot(): Prerequisite {
  const common = { name: "ordinary user", version: null } as const;
  if (isRoot() !== true) return { ...common, state: "ok", detail: "not root", fix: null };
  return {
    ...common,
    state: "warn",
    detail: "running as root: anything that escapes the sandbox is root",
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

/** How a program ended, or why it is missing. */
async function run(tool: SystemTool, args: readonly string[]): Promise<ProgramEnd | string> {
  try {
    return await runProgram(await requireProgram(tool), { args });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return error.message;
    throw error;
  }
}

// Linux user namespaces, which the sandbox needs: checking them and explaining why they fail.

/**
 * Arguments of `bwrap` for the namespaces and mounts of both sandboxes. `bwrap` itself also runs
 * inside, because it is known to be on the PATH.
 */
const NAMESPACE_PROBE: readonly string[] = [
  ..."--unshare-user --unshare-net --unshare-pid --cap-drop ALL --ro-bind / / --dev /dev".split(
    " ",
  ),
  ...(isRoot() === true ? ["--cap-add", "CAP_SETFCAP"] : []),
  ...(isRoot() === false ? ["--proc", "/proc"] : ["--bind", "/proc", "/proc"]), // as in the wall
  // As the first process there, an inner one that fails takes its child with it, which would wait
  // forever.
  ..."--as-pid-1 bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc".split(" "),
  ..."bwrap --version".split(" "),
];

/** Kernel settings for user namespaces; `undefined` if the kernel does not have one. */
export interface NamespaceSettings {
  /** `kernel.apparmor_restrict_unprivileged_userns`. */
  readonly apparmorRestricts: string | undefined;
  /** `kernel.unprivileged_userns_clone`. */
  readonly unprivilegedClone: string | undefined;
  /** `user.max_user_namespaces`. */
  readonly maximum: string | undefined;
}

const CONTAINER = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined " +
  "--security-opt systempaths=unconfined, or use the container as the sandbox (--no-sandbox)";

/** Explains why bubblewrap could not create its namespaces. */
export function explainNamespaceFailure(
  stderr: string,
  settings: NamespaceSettings,
): { readonly detail: string; readonly fix: string } {
  const said = stderr.trim().split("\n").at(-1) ?? "";
  if (settings.unprivilegedClone === "0") {
    return {
      detail: `Only root may create user namespaces here (${said})`,
      fix: "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    };
  }
  if (settings.maximum === "0") {
    return {
      detail: `The kernel allows no user namespaces (${said})`,
      fix: "sudo sysctl -w user.max_user_namespaces=15000",
    };
  }
  if (/mount proc/i.test(said)) {
    return {
      detail: `This container hides parts of /proc, so no sandbox can be nested in it (${said})`,
      fix: `Run the container with ${CONTAINER}`,
    };
  }
  if (settings.apparmorRestricts === "1") {
    return {
      detail: `AppArmor restricts user namespaces, as on Ubuntu 24.04 and newer (${said})`,
      fix: "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    };
  }
  return {
    detail: `User namespaces do not work (${said})`,
    fix: `In a container, run it with ${CONTAINER}; otherwise ask the administrator to allow them`,
  };
}

/** Reads the kernel's settings, as far as Deno's permissions allow without a prompt. */
async function readNamespaceSettings(): Promise<NamespaceSettings> {
  return {
    apparmorRestricts: await setting("kernel/apparmor_restrict_unprivileged_userns"),
    unprivilegedClone: await setting("kernel/unprivileged_userns_clone"),
    maximum: await setting("user/max_user_namespaces"),
  };
}

async function setting(name: string): Promise<string | undefined> {
  const path = `/proc/sys/${name}`;
  if (!mayRead(path)) return undefined;
  try {
    return (await Deno.readTextFile(path)).trim();
  } catch {
    return undefined; // this kernel does not have the setting
  }
}
