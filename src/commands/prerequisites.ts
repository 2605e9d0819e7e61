/**
 * Everything that ipybox needs of a machine, checked by trying it.
 *
 * @module
 */
import { EnvironmentNotReadyError } from "../errors.ts";
import { CodeExecutor } from "../executor/code_executor.ts";
import { silentLogger } from "../log.ts";
import { HeldFolder } from "../process/held_folder.ts";
import { checkPython, KERNEL_PACKAGES, type PythonCheck } from "../python/environment.ts";
import { checkSandbox, checkSessionLimits, type Prerequisite } from "../sandbox/preflight.ts";
import { checkSrt } from "../sandbox/srt_package.ts";

/** The oldest Deno that ipybox is tested with. */
const MINIMUM_DENO = "2.9.0";

/** Checks all prerequisites. Takes about two seconds: the Python packages are really imported. */
export async function checkPrerequisites(
  options: { python?: string | undefined } = {},
): Promise<Prerequisite[]> {
  const [python, srt, sandbox, limits] = await Promise.all([
    pythonRows(options),
    checkSrt(),
    checkSandbox(),
    checkSessionLimits(),
  ]);
  return [denoRow(), ...python, srt, ...sandbox, limits];
}

/** Starts a kernel in the sandbox, which tests itself, and runs code in it. Takes a few seconds. */
export async function checkKernel(
  { python, signal }: { python: string | undefined; signal: AbortSignal },
): Promise<Prerequisite> {
  const row = { name: "kernel", version: null } as const;
  const start = performance.now();
  try {
    await using folder = await HeldFolder.create();
    const workspace = `${folder.path}/workspace`;
    await Deno.mkdir(workspace);
    await using executor = await CodeExecutor.start({
      workspace,
      python,
      packages: false,
      approval: "deny",
      spareKernel: false,
      log: silentLogger,
      signal,
    });
    await executor.execute("pass", { signal });
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    return { ...row, state: "ok", detail: `runs code in the sandbox (${seconds} s)`, fix: null };
  } catch (error) {
    if (!(error instanceof Error) || signal.aborted) throw error;
    const fix = error instanceof EnvironmentNotReadyError ? error.fix : null;
    return { ...row, state: "missing", detail: error.message, fix };
  }
}

function denoRow(): Prerequisite {
  const version = Deno.version.deno;
  const common = { name: "Deno", version } as const;
  if (version.localeCompare(MINIMUM_DENO, "en", { numeric: true }) >= 0) {
    return { ...common, state: "ok", detail: Deno.execPath(), fix: null };
  }
  const detail = `is older than ${MINIMUM_DENO}, the oldest that ipybox is tested with`;
  return { ...common, state: "warn", detail, fix: "deno upgrade" };
}

async function pythonRows(options: { python?: string | undefined }): Promise<Prerequisite[]> {
  let check: PythonCheck;
  try {
    check = await checkPython(options);
  } catch (error) {
    if (!(error instanceof EnvironmentNotReadyError)) throw error;
    const { message: detail, fix } = error;
    const missing = { state: "missing", version: null, fix } as const;
    return [
      { ...missing, name: "Python", detail },
      ...KERNEL_PACKAGES.map((name) => ({ ...missing, name, detail: "needs the Python above" })),
    ];
  }
  const { environment, problem, fix } = check;
  const { version, executable, managed, packages } = environment;
  const python: Prerequisite = {
    name: "Python",
    state: problem === undefined ? "ok" : "missing",
    version,
    detail: problem ?? `${executable} (${managed ? "managed" : "named"})`,
    path: executable,
    fix: problem === undefined ? null : fix,
  };
  const present = Object.entries(packages).map(([name, version]): Prerequisite => ({
    name,
    state: "ok",
    version,
    detail: "can be imported",
    fix: null,
  }));
  const missing = Object.entries(check.missing).map(([name, detail]): Prerequisite => ({
    name,
    state: "missing",
    version: null,
    detail,
    fix,
  }));
  return [python, ...present, ...missing];
}
