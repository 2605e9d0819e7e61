import { dirname, join } from "node:path";
import { z } from "zod";
import { mayUse } from "../../base/permission.ts";
import { abortable, anySignal } from "../../base/signals.ts";
import { ifPresent, replaceHostileFile } from "../../files/safe.ts";
import { inState } from "../../files/user_folders.ts";
import { sha256 } from "../../json/digest.ts";
import { parsedJson } from "../../json/plain.ts";
import { isInside } from "../../process/trusted_path.ts";
import { LoginFileError } from "../start_errors.ts";

/** A token that can be sent in a header. */
export const TOKEN: RegExp = /^[\x21-\x7e]{1,32768}$/;

const token = z.string().regex(TOKEN);

const loginSchema = z.strictObject({
  /** The server's address. */
  server: z.string(),
  /** The authorization server, which the rest is bound to. */
  issuer: z.string(),
  /** The client id there. */
  clientId: z.string(),
  /** The secret from dynamic registration, if any. */
  clientSecret: z.string().optional(),
  /** The method of client authentication. */
  clientAuthMethod: z.string().optional(),
  /** When its secret expires, in seconds since 1970; 0 for never. */
  clientSecretExpiresAt: z.number().optional(),
  /** The redirect URI from dynamic registration. */
  redirectUri: z.string().optional(),
  accessToken: token.optional(),
  /** The token that the authorization server exchanges for a new access token. */
  refreshToken: token.optional(),
  /** The scopes that were requested. */
  scope: z.string().optional(),
  /** The scopes that turned out to be missing. */
  lackingScope: z.string().optional(),
});

/** A login to one server: its client and its tokens. */
export type Login = Readonly<z.infer<typeof loginSchema>>;

/** Options of {@linkcode LoginStore.find}. */
interface FindLoginOptions {
  /** The client that the user configured, which has separate logins. */
  readonly clientId?: string;
  /** The folder where executed code writes. */
  readonly workspace?: string;
  /** The folder of all logins; by default the user's. */
  readonly folder?: string;
}

/** The largest login file. */
const MAX_BYTES = 2 ** 20;
/** How long to wait for another process that uses the same login. */
const LOCK_MS = 60_000;

/** The file of the login to one server, private to its owner and outside of all workspaces. */
export class LoginStore {
  readonly #server: string;

  private constructor(
    readonly path: string,
    server: string,
  ) {
    this.#server = server;
  }

  /** Finds where the login to a server is stored; `undefined` if it cannot be stored. */
  static find(
    server: URL,
    options: FindLoginOptions = {},
  ): LoginStore | undefined {
    const { clientId, workspace, folder = inState("logins") } = options;
    if (folder === undefined || !mayUse(folder)) return undefined;
    if (workspace !== undefined && isInside(folder, workspace)) {
      throw new LoginFileError(
        `Logins are stored in ${folder}, which must not be in the workspace: choose another workspace`,
      );
    }
    const key = JSON.stringify([server.href, clientId ?? null]);
    return new LoginStore(join(folder, `${sha256(key).slice(0, 32)}.json`), server.href);
  }

  async read(): Promise<Login | undefined> {
    const file = await ifPresent(Deno.open(this.path));
    if (file === undefined) return undefined;
    using _file = file;
    // Checks the opened file, because another process may replace the path at any moment.
    const { isFile, mode, size } = await file.stat();
    if (!isFile || size > MAX_BYTES) {
      throw new LoginFileError(`${this.path} is not a valid login: delete it and log in again`);
    }
    if (mode !== null && (mode & 0o077) !== 0) {
      throw new LoginFileError(`Others can read ${this.path}: delete it and log in again`);
    }
    const text = await new Response(file.readable).text();
    const login = loginSchema.safeParse(parsedJson(text)).data; // no error may quote it
    if (login?.server === this.#server) return login;
    throw new LoginFileError(`${this.path} is not a valid login: delete it and log in again`);
  }

  /** Replaces the login atomically. A caller that changes a login it has read must hold the lock. */
  async write(login: Login): Promise<void> {
    await Deno.mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
    await replaceHostileFile(this.path, JSON.stringify(login) + "\n");
  }

  /** Deletes the login. */
  async remove(): Promise<void> {
    await ifPresent(Deno.remove(this.path));
  }

  /** Locks the login against other processes. The system releases the lock if this process ends. */
  async lock(signal?: AbortSignal): Promise<Disposable> {
    await Deno.mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
    const file = await Deno.open(`${this.path}.lock`, { create: true, write: true, mode: 0o600 });
    const limit = AbortSignal.timeout(LOCK_MS);
    try {
      await abortable(file.lock(true), anySignal(limit, signal));
      return file;
    } catch (error) {
      file.close();
      if (!limit.aborted) throw error;
      throw new LoginFileError(`Another process does not release ${this.path}.lock`, {
        cause: error,
      });
    }
  }
}
