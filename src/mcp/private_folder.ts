import { ConfigError } from "../errors.ts";

/**
 * An empty folder in which a server is started, unless its parameters name one. Disposing removes it.
 *
 * It must not be the workspace, where the code in the sandbox writes: `npx` prefers packages of the
 * working directory's `node_modules`, `python -m` its modules, and both would run outside the sandbox.
 */
export class PrivateFolder implements AsyncDisposable {
  /** @param path The folder. */
  private constructor(readonly path: string) {}

  /**
   * Makes a folder.
   *
   * @param serverName The server, for errors.
   * @returns The folder.
   * @throws {ConfigError} Deno's permissions do not allow it.
   */
  static async create(serverName: string): Promise<PrivateFolder> {
    try {
      return new PrivateFolder(await Deno.makeTempDir({ prefix: "ipybox-mcp-" }));
    } catch (cause) {
      if (!(cause instanceof Deno.errors.NotCapable)) throw cause;
      throw new ConfigError(
        `Cannot make a folder to start MCP server "${serverName}" in: allow writing to the folder ` +
          `for temporary files, or give the server a "cwd" that executed code cannot write to`,
        { cause },
      );
    }
  }

  /** Removes the folder and what the server left in it. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await Deno.remove(this.path, { recursive: true });
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}
