import { installerEnvironment } from "./installer_environment.ts";

/**
 * The package index that an installer uses where nothing else is configured, as its own help says.
 *
 * @param install The command that installs, such as `["uv", "pip", "install"]`.
 * @param signal Gives up.
 * @returns The index's address.
 * @throws {Error} The help does not say.
 */
export async function defaultIndex(
  install: readonly string[],
  signal?: AbortSignal,
): Promise<string> {
  const [command = "", ...args] = install;
  const { stdout } = await new Deno.Command(command, {
    args: [...args, "--help"],
    cwd: "/",
    env: { ...installerEnvironment(), NO_COLOR: "1" },
    clearEnv: true,
    stdin: "null",
    ...(signal === undefined ? {} : { signal }),
  }).output();
  signal?.throwIfAborted();
  const index = indexInHelp(new TextDecoder().decode(stdout));
  if (index !== undefined) return index;
  throw new Error(`Cannot tell which package index ${install.join(" ")} uses: configure one`);
}

/**
 * Finds the default index in an installer's help.
 *
 * @param help What `pip install --help` or `uv pip install --help` prints, wrapped in whatever way.
 * @returns The address, or `undefined` where there is none.
 */
export function indexInHelp(help: string): string | undefined {
  return /\(\s*(?:by\s+)?default:?\s+<?(https?:\/\/[^\s<>()]+)/.exec(help)?.[1];
}
