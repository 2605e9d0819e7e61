import { runProgram } from "./program.ts";
import { denoDirectory } from "./temp_cache.ts";

/** A user that has no other processes. */
const USER = "61234";

/**
 * Root's home is closed to others, but Deno's cache and the Python of the tests lie in it, and perhaps
 * this project. So in its place this one process sees a folder that others may enter, with the same
 * folders in it. The same for root's own home where `HOME` is another one.
 */
const SCRIPT = `
open_up() {
  stash=$(mktemp -d)
  mount --bind "$1" "$stash"
  mount -t tmpfs -o mode=755 tmpfs "$1"
  for folder in "$stash"/* "$stash"/.[!.]*; do
    [ -d "$folder" ] || continue
    mkdir "$1/\${folder##*/}"
    mount --bind "$folder" "$1/\${folder##*/}"
  done
  umount "$stash"
  rmdir "$stash"
}
open_up "$HOME"
own=$(getent passwd 0 | cut -d: -f6)
[ "$own" = "$HOME" ] || open_up "$own"
exec setpriv --reuid ${USER} --regid ${USER} --clear-groups env HOME="$NEW_HOME" "$@"
`;

/** Why root cannot run something as another user on this machine; `undefined` where it can. */
export async function whyNotUnprivileged(): Promise<string | undefined> {
  if (Deno.uid() !== 0) return undefined;
  const check = ["--mount", "setpriv", "--reuid", USER, "--clear-groups", "true"];
  try {
    const { success, stderr } = await runProgram("unshare", check);
    return success ? undefined : `root may not do all: ${stderr}`;
  } catch (error) {
    return `cannot become another user: ${error}`;
  }
}

/**
 * Runs a program of the tests as a user who is not root: the current one, or another.
 *
 * @param program Its path.
 * @param folder A folder that it may write to: its home, and its first argument is one in it.
 * @param more Further arguments.
 * @returns What it printed.
 * @throws {Error} It failed.
 */
export async function runUnprivileged(
  program: string,
  folder: string,
  more: readonly string[] = [],
): Promise<string> {
  const [home, workspace] = [`${folder}/home`, `${folder}/workspace`];
  for (const path of [folder, home, workspace]) {
    await Deno.mkdir(path, { recursive: true });
    await Deno.chmod(path, 0o777);
  }
  const command = [
    Deno.execPath(),
    "run",
    "-A",
    "--quiet",
    "--cached-only",
    program,
    workspace,
    ...more,
  ];
  const [executable = "", ...args] = asUnprivileged(command);
  const env = { NEW_HOME: home, NO_COLOR: "1", DENO_DIR: await denoDirectory() };
  const { success, stdout, stderr } = await runProgram(executable, args, { env });
  if (!success) throw new Error(`${program} failed: ${stderr}`);
  return stdout;
}

/**
 * How a command is started by a user who is not root: the current one, or another, whose home is
 * `$NEW_HOME` then.
 *
 * @param command The program and its arguments.
 * @returns What to start.
 */
export function asUnprivileged(command: readonly string[]): readonly string[] {
  if (Deno.uid() !== 0) return command;
  return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", SCRIPT, "sh", ...command];
}

/**
 * Gives a folder and all in it to the user that {@linkcode asUnprivileged} makes of root.
 *
 * @param folder The folder.
 */
export async function giveToUnprivileged(folder: string): Promise<void> {
  if (Deno.uid() !== 0) return;
  await Deno.chown(folder, Number(USER), Number(USER));
  for await (const { name, isDirectory, isSymlink } of Deno.readDir(folder)) {
    if (isDirectory) await giveToUnprivileged(`${folder}/${name}`);
    else if (!isSymlink) await Deno.chown(`${folder}/${name}`, Number(USER), Number(USER));
  }
}
