import { dirname } from "node:path";
import { allDone } from "../async/all.ts";
import { asset, assetTree } from "../assets/mod.ts";

/**
 * The folders of one gateway, readable by nobody else, outside the workspace. Disposing removes
 * them.
 */
export class SessionFolder implements AsyncDisposable {
  /** What kernels see and write. */
  readonly session: string;
  /** Our programs in it, which must not be changed. */
  readonly launcher: string;
  /** The kernel's half of the tool runtime, which must not be changed. */
  readonly runtime: string;
  /** In which each kernel gets a folder of its own, its home directory. */
  readonly kernels: string;
  /** What only the host sees. */
  readonly hostPrivate: string;
  /** A file that nobody inside may open, and that no rule of the sandbox names. */
  readonly canary: string;

  readonly #lock: Disposable;

  private constructor(readonly root: string, lock: Disposable) {
    this.#lock = lock;
    this.session = `${root}/session`;
    this.launcher = `${this.session}/launcher`;
    this.runtime = `${this.session}/runtime`;
    this.kernels = `${this.session}/kernels`;
    this.hostPrivate = `${root}/host`;
    this.canary = `${root}/canary`;
  }

  /**
   * Makes the folders and writes what runs in them.
   *
   * @returns The folders.
   */
  static async create(): Promise<SessionFolder> {
    await using stack = new AsyncDisposableStack();
    const root = await Deno.realPath(await Deno.makeTempDir({ prefix: PREFIX }));
    const folder = stack.use(new SessionFolder(root, await lockFolder(root)));
    for (const path of [folder.session, folder.hostPrivate]) {
      await Deno.mkdir(path, { mode: 0o700 });
    }
    await allDone([
      removeAbandoned(root),
      Deno.mkdir(folder.kernels, { mode: 0o700 }),
      Deno.mkdir(`${folder.session}/jupyter/runtime`, { recursive: true, mode: 0o700 }),
      Deno.writeTextFile(folder.canary, "nobody inside reads this", { mode: 0o600 }),
      folder.#write("launcher/launcher.py", asset("launcher/launcher.py")),
      folder.#write("launcher/gateway.py", asset("launcher/gateway.py")),
      folder.#write("launcher/kernel.py", asset("launcher/kernel.py")),
      ...assetTree("runtime").map(({ path, text }) => folder.#write(`runtime/${path}`, text)),
    ]);
    stack.move();
    return folder;
  }

  /**
   * The variables that lead the gateway into the session.
   *
   * @returns The variables.
   */
  environment(): Record<string, string> {
    return {
      HOME: this.session,
      JUPYTER_CONFIG_DIR: `${this.session}/jupyter/config`,
      JUPYTER_DATA_DIR: `${this.session}/jupyter/data`,
      JUPYTER_RUNTIME_DIR: `${this.session}/jupyter/runtime`,
    };
  }

  /** Removes the folders, whatever was done to them. */
  async [Symbol.asyncDispose](): Promise<void> {
    using _lock = this.#lock;
    await removeFolder(this.root);
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

const PREFIX = "ipybox-";

/** Holds the lock of a folder, which the system takes back when this process dies. */
async function lockFolder(root: string): Promise<Disposable> {
  const lock = await Deno.open(`${root}/locking`, { create: true, write: true, mode: 0o600 });
  try {
    await lock.lock(true);
    await Deno.rename(`${root}/locking`, `${root}/lock`); // nobody ever sees it unlocked
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** Removes the folders of this user's processes that could not do so because they were killed. */
async function removeAbandoned(own: string): Promise<void> {
  const parent = dirname(own);
  // Asked first: a script with few permissions is not to be interrupted by a prompt for this.
  const mayRead = await Deno.permissions.query({ name: "read", path: parent });
  if (mayRead.state !== "granted") return;
  const { uid } = await Deno.lstat(own);
  for await (const { name, isDirectory } of Deno.readDir(parent)) {
    const root = `${parent}/${name}`;
    if (isDirectory && name.startsWith(PREFIX) && root !== own) {
      await removeIfAbandoned(root, uid);
    }
  }
}

async function removeIfAbandoned(root: string, uid: number | null): Promise<void> {
  try {
    if ((await Deno.lstat(root)).uid !== uid) return;
    if (!(await Deno.lstat(`${root}/lock`)).isFile) return;
    using lock = await Deno.open(`${root}/lock`, { write: true });
    if (await lock.tryLock(true)) await removeFolder(root);
  } catch (error) {
    // It is another program's, or another process was quicker.
    const isOthers = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.PermissionDenied;
    if (!isOthers) throw error;
  }
}

async function removeFolder(root: string): Promise<void> {
  try {
    await Deno.remove(root, { recursive: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    await makeRemovable(root); // code inside can take its own folders' rights away
    await Deno.remove(root, { recursive: true });
  }
}

async function makeRemovable(folder: string): Promise<void> {
  await Deno.chmod(folder, 0o700);
  for await (const entry of Deno.readDir(folder)) {
    if (entry.isDirectory) await makeRemovable(`${folder}/${entry.name}`);
  }
}
