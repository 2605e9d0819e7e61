import { z } from "zod";
import { asset } from "../assets/mod.ts";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { hostEnv } from "../base/permission.ts";
import { stage } from "../base/stages.ts";
import { ifPresent } from "../files/safe.ts";
import { programOf } from "../process/program.ts";
import { confinedPythonArgs, pythonArgs } from "../process/python_args.ts";
import { type ProgramEnd, runProgram } from "../process/run_program.ts";
import { isBroad } from "../sandbox/installation.ts";
import { type WorkspacePython, workspacePython } from "../sandbox/workspace_python.ts";

/** The files of a Python that can run the gateway. The sandbox must let it read them. */
interface PythonFiles {
  /** Its path, whose folder is free of symbolic links. */
  readonly executable: string;
  /** Files and folders that must be readable to run it. */
  readonly readable: readonly string[];
  /** The type checker ty, if it is installed. */
  readonly checker: string | undefined;
  /** Variables that its start script or conda's activation sets. */
  readonly variables: Readonly<Record<string, string>>;
  /**
   * Whether code can change it. If so, its answers count neither outside of a sandbox nor before
   * its check.
   */
  readonly isChangeable: boolean;
}

/**
 * Prints facts about this Python and the files that it needs. Python follows links itself, so that
 * we need not be able to read them.
 */
const QUERY = `${asset("sandbox/wall.py")}
import subprocess

def variables():
    prefix = sys.prefix
    if not os.path.isdir(os.path.join(prefix, "conda-meta")):
        return dict(os.environ)
    found = {**os.environ, "CONDA_PREFIX": prefix, "CONDA_DEFAULT_ENV": os.path.basename(prefix)}
    try:
        with open(os.path.join(prefix, "conda-meta", "state")) as file:
            found.update(json.load(file).get("env_vars", {}))
    except OSError:
        pass  # there is none
    shell = next(path for path in ("/bin/bash", "/bin/sh") if os.path.exists(path))
    path = os.pathsep.join([os.path.join(prefix, "bin"), "/usr/bin", "/bin"])
    activated = subprocess.run(
        [shell, "-c", ACTIVATE, sys.executable],
        env={**found, "PATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )
    return found if activated.returncode else json.loads(activated.stdout)

ACTIVATE = """
exec 3>&1 >&2
for script in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do
    if [ -r "$script" ]; then . "$script"; fi
done
exec "$0" -I -S -c 'import json, os; print(json.dumps(dict(os.environ)))' >&3
"""

order = json.loads(sys.argv[1])
found = variables()
if order["home"]:
    os.environ["HOME"] = order["home"]
print(json.dumps({
    **python_facts({"kernel_gateway": "jupyter_kernel_gateway", "ipykernel": "ipykernel"}),
    "variables": found,
    "readable": installation(real_executable(), order["workspace"]),
}))
`;

const path = z.string().startsWith("/");

const answerSchema = z.object({
  python: path,
  checker: path.nullable(),
  missing: z.array(z.enum(["jupyter_kernel_gateway", "ipykernel"])), // shown as a command to run
  variables: z.record(z.string(), z.string()),
  readable: z.array(path),
});

interface LocateOptions {
  readonly workspace: string;
  readonly signal: AbortSignal;
  /** The `LD_LIBRARY_PATH` to try if it does not start without one. */
  readonly libraryPath?: string | undefined;
}

/** Asks a Python where its files are and whether it can run the gateway for code of a workspace. */
export async function locatePython(python: string, options: LocateOptions): Promise<PythonFiles> {
  using _stage = stage("ask Python for its files");
  const { workspace, libraryPath } = options;
  const inside = await workspacePython(python, workspace);
  if (inside !== undefined) return await locateInside(inside, options);
  const { python: executable, readable, checker, variables } = await answerOf(python, options, {})
    .catch(async (error: unknown) => {
      if (!libraryPath || !(error instanceof EnvironmentNotReadyError)) throw error;
      const variables = { LD_LIBRARY_PATH: libraryPath };
      return await answerOf(python, options, variables).catch(() => {
        throw error;
      });
    });
  return {
    executable,
    readable: [...readable, ...await libraryFolders(variables.LD_LIBRARY_PATH)],
    checker: checker ?? undefined,
    variables: own(variables),
    isChangeable: false,
  };
}

function own(variables: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).filter(([name]) => !SHELL_VARIABLES.includes(name)),
  );
}

/**
 * Asks a Python that code can change, in a sandbox. Its answer does not affect which paths code
 * sees.
 */
async function locateInside(
  inside: WorkspacePython,
  options: LocateOptions,
): Promise<PythonFiles> {
  const { executable, readable } = inside;
  const { variables, checker } = parsed(
    executable,
    await inside.run([...confinedPythonArgs(QUERY), orderOf(options)], options.signal),
  );
  return {
    ...{ executable, readable, checker: checker ?? undefined },
    variables: own(variables),
    isChangeable: true,
  };
}

/** Variables that shells or Python itself set, or that kernels get in another way. */
const SHELL_VARIABLES: readonly string[] = "LC_CTYPE OLDPWD PATH PWD PYTHONPATH SHLVL _".split(" ");

/** The folders of an `LD_LIBRARY_PATH` that hold nothing but libraries. */
async function libraryFolders(path = ""): Promise<string[]> {
  const named = path.split(":").filter((folder) => folder.startsWith("/"));
  const found = await Promise.all(named.map(async (folder) => {
    const real = await ifPresent(Deno.realPath(folder));
    return real === undefined || isBroad(real, hostEnv("HOME")) ? [] : [folder, real];
  }));
  return [...new Set(found.flat())];
}

function orderOf({ workspace }: LocateOptions): string {
  return JSON.stringify({ workspace, home: hostEnv("HOME") ?? null });
}

type Answer = z.infer<typeof answerSchema>;

async function answerOf(
  python: string,
  options: LocateOptions,
  env: Readonly<Record<string, string>>,
): Promise<Answer> {
  const { signal } = options;
  let end: ProgramEnd;
  try {
    const program = await programOf(python);
    const args = [...pythonArgs(QUERY), orderOf(options)];
    end = await runProgram(program, { args, clearEnv: true, env, signal });
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new EnvironmentNotReadyError(
      `Cannot start ${python}: command not found`,
      "ipybox setup",
      { cause },
    );
  }
  return parsed(python, end);
}

function parsed(python: string, end: ProgramEnd): Answer {
  let answer: Answer;
  try {
    answer = answerSchema.parse(JSON.parse(end.stdout));
  } catch (cause) {
    throw new EnvironmentNotReadyError(
      `${python} is not a working Python interpreter (exit code ${end.code}): ${end.stderr.trim()}`,
      "ipybox setup",
      { cause },
    );
  }
  if (answer.missing.length === 0) return answer;
  throw new EnvironmentNotReadyError(
    `${python} lacks ${answer.missing.join(" and ")}`,
    `${python} -m pip install ${answer.missing.join(" ")}`,
  );
}
