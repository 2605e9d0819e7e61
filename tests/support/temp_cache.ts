import { TempFolder } from "./temp_folder.ts";

/** A user's cache of a test's own, so that the real one stays as it is. */
export class TempCache implements AsyncDisposable {
  readonly #folder: TempFolder;
  /** The folder. */
  readonly path: string;
  /** The variables that lead there. Deno's own cache stays where it is. */
  readonly env: Readonly<Record<string, string>>;

  private constructor(folder: TempFolder, denoDir: string) {
    this.#folder = folder;
    this.path = folder.path;
    this.env = { XDG_CACHE_HOME: folder.path, DENO_DIR: denoDir };
  }

  /** Makes an empty one. */
  static async create(): Promise<TempCache> {
    const denoDir = await denoDirectory();
    return new TempCache(await TempFolder.create(), denoDir);
  }

  /** Makes the folder of Python environments in it, which has none yet. */
  async pythons(): Promise<string> {
    const folder = `${this.path}/ipybox/python`;
    await Deno.mkdir(folder, { recursive: true });
    return folder;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#folder[Symbol.asyncDispose]();
  }
}

/** The folder of Deno's own cache. */
export function denoDirectory(): Promise<string> {
  return found ??= findDenoDirectory();
}

let found: Promise<string> | undefined;

async function findDenoDirectory(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  return JSON.parse(new TextDecoder().decode(stdout)).denoDir;
}
