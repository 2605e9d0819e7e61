/**
 * A real sshd for tests, with keys and settings of its own.
 *
 * @module
 */
import { freePort } from "./mcp.ts";
import { until } from "./wait.ts";
import { TempFolder } from "./temp_folder.ts";

/** Why no sshd can be started here; `undefined` where one can. */
export async function whyNoSshd(): Promise<string | undefined> {
  for (const path of ["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen"]) {
    if (!await Deno.stat(path).then(({ isFile }) => isFile, () => false)) return `no ${path}`;
  }
  return undefined;
}

/** Runs a command, which must work. */
export async function run(command: string, ...args: readonly string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args: [...args], stdin: "null" })
    .output();
  if (!success) {
    throw new Error(`${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  }
}

/** Where an sshd listens. */
interface SshdOptions {
  /** @default {"127.0.0.1"} */
  readonly address?: string;
  /** What it is started by, such as `ip netns exec NAME`. */
  readonly prefix?: readonly string[];
}

/** An sshd that lets this user in, and the arguments that lead `ssh` to it. */
export class Sshd implements AsyncDisposable {
  readonly #parts: AsyncDisposableStack;

  private constructor(
    parts: AsyncDisposableStack,
    /** `USER@ADDRESS`. */
    readonly host: string,
    /** Further arguments of `ssh`. */
    readonly args: readonly string[],
  ) {
    this.#parts = parts;
  }

  /** Starts one. */
  static async start({ address = "127.0.0.1", prefix = [] }: SshdOptions = {}): Promise<Sshd> {
    await using parts = new AsyncDisposableStack();
    const folder = parts.use(await TempFolder.create()).path;
    for (const name of ["host", "own"]) {
      await run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", `${folder}/${name}`);
    }
    const port = freePort();
    await Deno.writeTextFile(
      `${folder}/config`,
      [
        ...[`ListenAddress ${address}`, `Port ${port}`, `HostKey ${folder}/host`],
        ...[`AuthorizedKeysFile ${folder}/own.pub`, "PasswordAuthentication no", "UsePAM no"],
        ...["StrictModes no", "PermitRootLogin yes", `PidFile ${folder}/pid`, "PrintMotd no"],
      ].join("\n") + "\n",
    );
    // Only root's needs it, to take rights away.
    if (Deno.uid() === 0) await Deno.mkdir("/run/sshd", { recursive: true });
    const [program = "", ...args] = [...prefix, "/usr/sbin/sshd"];
    const process = new Deno.Command(program, {
      args: [...args, "-D", "-e", "-f", `${folder}/config`],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    parts.defer(async () => {
      process.kill();
      await process.status;
    });
    await until("sshd listens", () => Deno.stat(`${folder}/pid`).then(() => true, () => false));
    const user = new TextDecoder().decode(
      (await new Deno.Command("id", { args: ["-un"] }).output()).stdout,
    );
    return new Sshd(parts.move(), `${user.trim()}@${address}`, [
      ...["-F", "none", "-i", `${folder}/own`, "-p", String(port)],
      ...["-o", `UserKnownHostsFile=${folder}/known`, "-o", "StrictHostKeyChecking=accept-new"],
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}
