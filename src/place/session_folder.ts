import { allDone } from "../base/signals.ts";
import { stage } from "../base/stages.ts";
import { assetTree } from "../assets/mod.ts";
import type { Logger } from "../base/log.ts";
import { HeldFolder } from "../files/private_folder.ts";

/** The paths of one gateway's folders, on this machine or another one. */
export class SessionPaths {
  /** Files that kernels see and write. */
  readonly session: string;
  /** Our programs in it, which must not be changed. */
  readonly launcher: string;
  /** The kernel's half of the tool runtime, which must not be changed. */
  readonly runtime: string;
  /** The stubs of generated modules, for the type checker. */
  readonly stubs: string;
  /** The folder in which each kernel gets its home directory. */
  readonly kernels: string;
  /** Files that only the host sees. */
  readonly hostPrivate: string;
  /** The folder at `/tmp` in a sandbox that ipybox makes. */
  readonly temporary: string;
  /** A file that nobody inside may open, and that no rule of the sandbox names. */
  readonly canary: string;

  /** The folder that they are in. */
  readonly root: string;

  /** `programs` is the folder of our programs, if not the session's. */
  constructor(root: string, programs: string = `${root}/session`) {
    this.root = root;
    this.session = `${root}/session`;
    this.launcher = `${programs}/launcher`;
    this.runtime = `${programs}/runtime`;
    this.stubs = `${this.session}/stubs`;
    this.kernels = `${this.session}/kernels`;
    this.temporary = `${this.session}/tmp`;
    this.hostPrivate = `${root}/host`;
    this.canary = `${root}/canary`;
  }

  /** The folders that exist before the launcher starts. */
  get empty(): string[] {
    return [this.kernels, this.stubs, this.temporary, `${this.session}/jupyter/runtime`];
  }

  /** The variables that point the gateway to the session's folders. */
  environment(): Record<string, string> {
    return {
      HOME: this.session,
      JUPYTER_CONFIG_DIR: `${this.session}/jupyter/config`,
      JUPYTER_DATA_DIR: `${this.session}/jupyter/data`,
      JUPYTER_RUNTIME_DIR: `${this.session}/jupyter/runtime`,
    };
  }
}

/** Our programs that run where kernels do, by their paths in the session's folder. */
export function programs(): { path: string; text: string }[] {
  return ["launcher", "runtime"].flatMap((folder) =>
    assetTree(folder).map(({ path, text }) => ({ path: `${folder}/${path}`, text }))
  );
}

/**
 * The folders on this machine: outside the workspace, readable by nobody else. Disposing removes
 * them.
 */
export class SessionFolder extends SessionPaths implements AsyncDisposable {
  private constructor(readonly held: HeldFolder) {
    super(held.path);
  }

  /** Makes the folders and writes the programs that run in them. */
  static async create(log?: Logger): Promise<SessionFolder> {
    using _stage = stage("make folders");
    await using stack = new AsyncDisposableStack();
    const folder = stack.use(new SessionFolder(await HeldFolder.create({ log })));
    for (const path of [folder.session, folder.hostPrivate]) {
      await Deno.mkdir(path, { mode: 0o700 });
    }
    await allDone([
      ...folder.empty.map((path) => Deno.mkdir(path, { recursive: true, mode: 0o700 })),
      Deno.writeTextFile(folder.canary, "not needed inside", { mode: 0o600 }),
      ...programs().map(({ path, text }) => folder.#write(path, text)),
    ]);
    stack.move();
    return folder;
  }

  /** Removes the folders, whatever was done to them. */
  async [Symbol.asyncDispose](): Promise<void> {
    using _stage = stage("remove folders");
    await this.held[Symbol.asyncDispose]();
  }

  async #write(path: string, text: string): Promise<void> {
    const target = `${this.session}/${path}`;
    await Deno.mkdir(target.slice(0, target.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(target, text);
  }
}

/** The variables that point programs to their kernel's folder, with the paths in it. */
export const KERNEL_FOLDERS: Readonly<Record<string, string>> = {
  HOME: ".",
  TMPDIR: "tmp",
  IPYTHONDIR: "ipython",
  JUPYTER_CONFIG_DIR: "jupyter/config",
  JUPYTER_DATA_DIR: "jupyter/data",
  JUPYTER_RUNTIME_DIR: "jupyter/runtime",
};
