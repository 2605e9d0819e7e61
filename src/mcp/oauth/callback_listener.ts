import { abortable, settledWithin } from "../../async/signals.ts";
import { sameToken } from "../../net/same_token.ts";

const PATH = "/callback";
const FAREWELL_MS = 1000;

/** What the authorization server sent the browser back with. */
export interface Callback {
  /** The code, to be exchanged for tokens. */
  readonly code?: string | undefined;
  /** Who it says it is (RFC 9207). */
  readonly iss?: string | undefined;
  /** Why there is no code. */
  readonly error?: string | undefined;
}

/**
 * Waits on this machine for the browser to come back from a login.
 *
 * Anyone on this machine, and any page in its browser, can send requests here: only the one with the
 * login's `state` counts, and others do not end the wait.
 */
export class CallbackListener implements AsyncDisposable {
  /** Where the browser is to be sent. */
  readonly redirectUri: string;

  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #host: string;
  readonly #state: string;
  readonly #received = Promise.withResolvers<Callback>();

  private constructor(port: number, state: string) {
    this.#state = state;
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port, onListen() {} },
      (request) => this.#answer(request),
    );
    this.#host = `127.0.0.1:${this.#server.addr.port}`;
    this.redirectUri = `http://${this.#host}${PATH}`;
  }

  /** Listens. */
  static open(state: string, port: number): CallbackListener | undefined {
    try {
      return new CallbackListener(port, state);
    } catch (error) {
      if (error instanceof Deno.errors.AddrInUse) return undefined;
      throw error;
    }
  }

  /** Waits for the browser. */
  async received(signal: AbortSignal): Promise<Callback> {
    return await abortable(this.#received.promise, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#server.shutdown(); // lets the page get to the browser
    if (!await settledWithin(ended, FAREWELL_MS)) this.#server.unref();
  }

  #answer(request: Request): Response {
    const url = new URL(request.url);
    // A page of another host that its owner has made to mean this machine is not asked.
    if (request.headers.get("host") !== this.#host) return page(421, "Wrong host.");
    if (url.pathname !== PATH) return page(404, "There is nothing here.");
    if (request.method !== "GET") return page(405, "This is for browsers.");
    const one = (name: string): string | undefined => {
      const values = url.searchParams.getAll(name);
      return values.length === 1 ? values[0] : undefined;
    };
    const state = one("state");
    if (state === undefined || !sameToken(state, this.#state)) {
      return page(400, "This is not the login that ipybox waits for.");
    }
    const ambiguous = ["code", "iss", "error"].some((name) =>
      url.searchParams.getAll(name).length > 1
    );
    if (ambiguous) return page(400, "The answer of the authorization server is ambiguous.");
    const [code, iss, error] = [one("code"), one("iss"), one("error")];
    this.#received.resolve({ code, iss, error });
    return page(
      200,
      "ipybox has received the answer and goes on in the terminal. You can close this window.",
    );
  }
}

/** Nothing of the request is shown: it could be anybody's. */
function page(status: number, text: string): Response {
  return new Response(
    `<!doctype html><meta charset="utf-8"><title>ipybox</title><p>${text}</p>\n`,
    {
      status,
      headers: {
        "cache-control": "no-store",
        "connection": "close",
        "content-security-policy": "default-src 'none'",
        "content-type": "text/html; charset=utf-8",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
      },
    },
  );
}
