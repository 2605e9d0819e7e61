/** A directory of a test's own, which disposing removes. */
export class TempDirectory implements AsyncDisposable {
  private constructor(readonly path: string) {}

  /** Makes one. Its path has no symbolic links in it. */
  static async create(): Promise<TempDirectory> {
    return new TempDirectory(
      await Deno.realPath(await Deno.makeTempDir({ prefix: "ipybox-test-" })),
    );
  }

  /** The names in it, or in a directory below it, in order. */
  async list(below = "."): Promise<string[]> {
    const names: string[] = [];
    for await (const { name } of Deno.readDir(`${this.path}/${below}`)) names.push(name);
    return names.sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}
