import { z } from "zod";
import { EnvironmentNotReadyError } from "../errors.ts";

/** A Python that can run the gateway, and what it consists of. */
export interface Interpreter {
  /** Its path, whose folder is free of symbolic links. */
  readonly executable: string;
  /** Files and folders that must be readable to run it. */
  readonly readable: readonly string[];
}

const QUERY = `
import importlib.util, json, sys
needed = {"kernel_gateway": "jupyter_kernel_gateway", "ipykernel": "ipykernel"}
print(json.dumps({
    "executable": sys.executable,
    "prefixes": sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}),
    "missing": [name for module, name in needed.items() if not importlib.util.find_spec(module)],
}))
`;

const answerSchema = z.object({
  executable: z.string().startsWith("/"),
  prefixes: z.array(z.string().startsWith("/")),
  missing: z.array(z.string()),
});

/**
 * Asks a Python where it is and whether it can run the gateway.
 *
 * @param python Its path.
 * @param signal Ends the question.
 * @returns What it answered.
 * @throws {EnvironmentNotReadyError} It does not exist, does not work, or lacks packages.
 */
export async function askInterpreter(python: string, signal: AbortSignal): Promise<Interpreter> {
  const answer = await query(python, signal);
  if (answer.missing.length > 0) {
    throw new EnvironmentNotReadyError(
      `${python} lacks ${answer.missing.join(" and ")}`,
      `${python} -m pip install ${answer.missing.join(" ")}`,
    );
  }
  const executable = await inRealFolder(answer.executable);
  const prefixes = await Promise.all(answer.prefixes.map((path) => Deno.realPath(path)));
  const links = await linksOf(executable);
  const outside = links.filter((link) => !prefixes.some((root) => link.startsWith(`${root}/`)));
  return { executable, readable: [...prefixes, ...outside] };
}

async function query(python: string, signal: AbortSignal): Promise<z.infer<typeof answerSchema>> {
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command(python, {
      args: ["-I", "-c", QUERY],
      clearEnv: true,
      stdin: "null",
      signal,
    }).output();
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new EnvironmentNotReadyError(
      `Cannot start ${python}: command not found`,
      "ipybox setup",
      { cause },
    );
  }
  signal.throwIfAborted();
  try {
    return answerSchema.parse(JSON.parse(new TextDecoder().decode(output.stdout)));
  } catch (cause) {
    const stderr = new TextDecoder().decode(output.stderr).trim();
    throw new EnvironmentNotReadyError(
      `${python} is not a Python that works (exit code ${output.code}): ${stderr}`,
      "ipybox setup",
      { cause },
    );
  }
}

function split(path: string): { folder: string; name: string } {
  const at = path.lastIndexOf("/");
  return { folder: path.slice(0, at) || "/", name: path.slice(at + 1) };
}

/** The last part of a path is not resolved: a virtual environment is known by its link. */
async function inRealFolder(path: string): Promise<string> {
  const { folder, name } = split(path);
  return `${await Deno.realPath(folder)}/${name}`;
}

/** All symbolic links on the way from a path to its file, and the file. */
async function linksOf(path: string): Promise<string[]> {
  const links = [path];
  for (let at = path; links.length < 20 && (await Deno.lstat(at)).isSymlink;) {
    const target = await Deno.readLink(at);
    at = await inRealFolder(target.startsWith("/") ? target : `${split(at).folder}/${target}`);
    links.push(at);
  }
  return links;
}
