import { allDone } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import { asset, assetTree } from "../assets/mod.ts";
import type { Logger } from "../base/log.ts";
import type { Held } from "../files/held_records.ts";
import { HeldFolder } from "../files/private_folder.ts";

/**
 * The folders of one gateway, readable by nobody else, outside the workspace. Disposing removes
 * them.
 */
export class SessionFolder implements Held {
  /** What kernels see and write. */
  readonly session: string;
  /** Our programs in it, which must not be changed. */
  readonly launcher: string;
  /** The kernel's half of the tool runtime, which must not be changed. */
  readonly runtime: string;
  /** What describes generated modules to the type checker. */
  readonly stubs: string;
  /** In which each kernel gets its own folder, its home directory. */
  readonly kernels: string;
  /** What only the host sees. */
  readonly hostPrivate: string;
  /** A file that nobody inside may open, and that no rule of the sandbox names. */
  readonly canary: string;

  /** The folder that they are in. */
  readonly root: string;
  readonly #held: HeldFolder;

  private constructor(held: HeldFolder) {
    this.#held = held;
    const root = held.path;
    this.root = root;
    this.session = `${root}/session`;
    this.launcher = `${this.session}/launcher`;
    this.runtime = `${this.session}/runtime`;
    this.stubs = `${this.session}/stubs`;
    this.kernels = `${this.session}/kernels`;
    this.hostPrivate = `${root}/host`;
    this.canary = `${root}/canary`;
  }

  /** Makes the folders and writes what runs in them. */
  static async create(log?: Logger): Promise<SessionFolder> {
    using _stage = stage("make folders");
    await using stack = new AsyncDisposableStack();
    const folder = stack.use(new SessionFolder(await HeldFolder.create({ log })));
    for (const path of [folder.session, folder.hostPrivate]) {
      await Deno.mkdir(path, { mode: 0o700 });
    }
    await allDone([
      Deno.mkdir(folder.kernels, { mode: 0o700 }),
      Deno.mkdir(folder.stubs, { mode: 0o700 }),
      Deno.mkdir(`${folder.session}/jupyter/runtime`, { recursive: true, mode: 0o700 }),
      Deno.writeTextFile(folder.canary, "not needed inside", { mode: 0o600 }),
      folder.#write("launcher/launcher.py", asset("launcher/launcher.py")),
      folder.#write("launcher/gateway.py", asset("launcher/gateway.py")),
      folder.#write("launcher/kernel.py", asset("launcher/kernel.py")),
      folder.#write("launcher/checker.py", asset("launcher/checker.py")),
      ...assetTree("runtime").map(({ path, text }) => folder.#write(`runtime/${path}`, text)),
    ]);
    stack.move();
    return folder;
  }

  /** The variables that lead the gateway into the session. */
  environment(): Record<string, string> {
    return {
      HOME: this.session,
      JUPYTER_CONFIG_DIR: `${this.session}/jupyter/config`,
      JUPYTER_DATA_DIR: `${this.session}/jupyter/data`,
      JUPYTER_RUNTIME_DIR: `${this.session}/jupyter/runtime`,
    };
  }

  /** The file that this process has locked. */
  get lock(): string {
    return this.#held.lock;
  }

  /** Leaves the folders to another process. */
  leave(): void {
    this.#held.leave();
  }

  /** Removes the folders, whatever was done to them. */
  async [Symbol.asyncDispose](): Promise<void> {
    using _stage = stage("remove folders");
    await this.#held[Symbol.asyncDispose]();
  }

  async #write(path: string, text: string): Promise<void> {
    const target = `${this.session}/${path}`;
    await Deno.mkdir(target.slice(0, target.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(target, text);
  }
}

/** The variables that lead programs into the folder of their kernel, and where in it. */
export const KERNEL_FOLDERS: Readonly<Record<string, string>> = {
  HOME: ".",
  TMPDIR: "tmp",
  MPLCONFIGDIR: "matplotlib",
  IPYTHONDIR: "ipython",
  JUPYTER_CONFIG_DIR: "jupyter/config",
  JUPYTER_DATA_DIR: "jupyter/data",
  JUPYTER_RUNTIME_DIR: "jupyter/runtime",
};
