import { z } from "zod";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { stage } from "../base/stages.ts";
import { programOf } from "../process/program.ts";
import { pythonArgs } from "../process/python_args.ts";
import { type ProgramEnd, runProgram } from "../process/run_program.ts";
import { pythonFolders } from "../sandbox/installation.ts";

/** What a Python that can run the gateway consists of, which the sandbox must let it read. */
interface PythonFiles {
  /** Its path, whose folder is free of symbolic links. */
  readonly executable: string;
  /** Files and folders that must be readable to run it. */
  readonly readable: readonly string[];
  /** The type checker ty, where it is installed. */
  readonly checker: string | undefined;
}

/** Prints where it is. Python follows the links itself, so that we need not be able to read them. */
const QUERY = `
import importlib.util, json, os, sys

def in_real_folder(path):
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))

needed = {"kernel_gateway": "jupyter_kernel_gateway", "ipykernel": "ipykernel"}
prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
links = [in_real_folder(sys.executable)]
while os.path.islink(links[-1]) and len(links) < 20:
    target = os.path.join(os.path.dirname(links[-1]), os.readlink(links[-1]))
    links.append(in_real_folder(target))
ty = os.path.join(os.path.dirname(links[0]), "ty")
print(json.dumps({
    "links": links,
    "checker": ty if os.path.isfile(ty) and not os.path.islink(ty) else None,
    "prefixes": sorted({os.path.realpath(prefix) for prefix in prefixes}),
    "missing": [name for module, name in needed.items() if not importlib.util.find_spec(module)],
}))
`;

const path = z.string().startsWith("/");

const answerSchema = z.object({
  /** The executable, and every link between it and its file. */
  links: z.tuple([path], path),
  checker: path.nullable().default(null),
  prefixes: z.array(path),
  missing: z.array(z.string()),
});

/** Asks a Python where its files are and whether it can run the gateway for code of a workspace. */
export async function locatePython(
  python: string,
  { workspace, signal }: { readonly workspace: string; readonly signal: AbortSignal },
): Promise<PythonFiles> {
  using _stage = stage("ask Python for its files");
  const answer = await query(python, signal);
  if (answer.missing.length > 0) {
    throw new EnvironmentNotReadyError(
      `${python} lacks ${answer.missing.join(" and ")}`,
      `${python} -m pip install ${answer.missing.join(" ")}`,
    );
  }
  const { links, prefixes, checker } = answer;
  const found = await Promise.all(prefixes.map((prefix) => pythonFolders(prefix, workspace)));
  const folders = [...new Set(found.flat())];
  const outside = links.filter((link) => !folders.some((root) => link.startsWith(`${root}/`)));
  return {
    executable: links[0],
    readable: [...folders, ...outside],
    checker: checker ?? undefined,
  };
}

async function query(python: string, signal: AbortSignal): Promise<z.infer<typeof answerSchema>> {
  let end: ProgramEnd;
  try {
    const program = await programOf(python);
    end = await runProgram(program, { args: pythonArgs(QUERY), clearEnv: true, signal });
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new EnvironmentNotReadyError(
      `Cannot start ${python}: command not found`,
      "ipybox setup",
      { cause },
    );
  }
  try {
    return answerSchema.parse(JSON.parse(end.stdout));
  } catch (cause) {
    throw new EnvironmentNotReadyError(
      `${python} is not a working Python interpreter (exit code ${end.code}): ${end.stderr.trim()}`,
      "ipybox setup",
      { cause },
    );
  }
}
