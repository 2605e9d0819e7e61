/** A folder of a test's own. Disposing removes it. */
export class TempFolder implements AsyncDisposable {
  private constructor(readonly path: string) {}

  /**
   * Makes a folder.
   *
   * @param parent Where; the system's folder for temporary files by default.
   * @returns The folder.
   */
  static async create(parent?: string): Promise<TempFolder> {
    const made = await Deno.makeTempDir(parent === undefined ? {} : { dir: parent });
    return new TempFolder(await Deno.realPath(made));
  }

  /** The names in it, or in a folder below it, in order. */
  async list(below = "."): Promise<string[]> {
    const names = await Array.fromAsync(Deno.readDir(`${this.path}/${below}`), ({ name }) => name);
    return names.sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}
