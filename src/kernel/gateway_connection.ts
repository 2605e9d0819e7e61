import { KernelDiedError, type ProcessEvidence } from "../base/errors.ts";
import { bodyOf, directClient } from "../base/http.ts";
import type { ByteStream } from "../base/streams.ts";
import { LinkedSignal, settledWithin } from "../base/signals.ts";
import type { EffectiveLimits } from "../sandbox/limits.ts";
import { isRecord } from "../json/exact.ts";
import { parsedJson } from "../json/plain.ts";
import { KERNEL_PROTOCOL } from "./jupyter.ts";
import { describeExit } from "./traceback.ts";

/** A type checker that runs beside kernels. */
export interface CheckerProcess {
  /** Its stdin and stdout. It ends when this is closed. */
  readonly stream: ByteStream;
  /** A folder for the stubs that it reads, which only it and the host see. */
  readonly stubs: string;
  /**
   * If the checker is on another machine: the path of that folder there, and a function that copies
   * it.
   */
  readonly remote?: { readonly folder: string; readonly publish: () => Promise<void> };
}

/** The address of a kernel gateway, and information about its process. */
export interface GatewayAddress {
  /** Its base URL, such as `http://127.0.0.1:8888`. */
  readonly url: URL;
  /** Its access token, which is sent only in a header. */
  readonly token: string;
  /** Resolves when the gateway's process has ended. */
  readonly exited?: Promise<ProcessEvidence>;
  /** The last part of the gateway's stderr. */
  readonly stderrTail?: string;
  /**
   * Whether the sandbox keeps code in one kernel from tracing another one, and from changing the programs
   * that it runs. Otherwise a kernel is only started once the one that it replaces has ended.
   */
  readonly kernelsApart?: boolean;
  /** Whether kernels run in a sandbox. */
  readonly sandboxed?: boolean;
  /** The limits of one process of the executed code, so that errors can name them. */
  readonly limits?: EffectiveLimits;
}

/** A gateway; ipybox's own can do more than answer requests. */
interface Gateway extends GatewayAddress {
  /** Starts a type checker beside its kernels; `undefined` without one. */
  openChecker?(): CheckerProcess | undefined;
  /** Copies generated modules to its kernels, if they do not see the host's. */
  sync?(isChanged: boolean): Promise<void>;
  /** Starts a program that reads or writes a file of the workspace, beside its kernels. */
  openFile?(): ByteStream | undefined;
}

interface ConnectionOptions {
  /** Ends the gateway with all its kernels. */
  readonly end?: (() => Promise<void>) | undefined;
  /** Whether it ends with the connection. */
  readonly owned?: boolean;
}

/** The time limit for a gateway to show that it still answers. */
const PROBE_TIMEOUT_MS = 1000;

/** How long to wait for the exit status of a gateway that is gone. */
const EVIDENCE_TIMEOUT_MS = 5000;

/** One gateway, as its client sees it: requests, and its end. */
export class GatewayConnection implements AsyncDisposable {
  readonly address: Gateway;
  readonly #client: Deno.HttpClient;
  readonly #options: ConnectionOptions;
  readonly #end = new AbortController();
  /** Aborts when its process has ended, if that is known; the reason is the error to report. */
  readonly ended: AbortSignal = this.#end.signal;

  /** Makes no connection yet. */
  constructor(address: Gateway, options: ConnectionOptions) {
    this.address = address;
    this.#client = directClient(address.url.hostname);
    this.#options = options;
    address.exited?.then((evidence) => {
      this.#end.abort(evidence instanceof KernelDiedError ? evidence : endOf(evidence));
    });
  }

  /** The error to report if it ended: its death may be noticed a little later than a failed request. */
  async death(): Promise<unknown> {
    if (this.address.exited === undefined) return undefined;
    if (!this.ended.aborted && await this.#answers()) return undefined;
    await settledWithin(this.address.exited, EVIDENCE_TIMEOUT_MS); // `ended` aborts first
    return this.ended.reason;
  }

  /** {@linkcode Gateway.openFile}, unless it has ended. */
  openFile(): ByteStream | undefined {
    return this.ended.aborted ? undefined : this.address.openFile?.();
  }

  /** Ends it, if that is possible. */
  async end(): Promise<void> {
    await this.#options.end?.();
  }

  /** Starts a kernel and returns its id. */
  async createKernel(signal: AbortSignal): Promise<string> {
    const response = await this.#fetch("POST", "api/kernels", { body: "{}", signal });
    const model = parsedJson(await startOf(response, signal));
    if (isRecord(model) && typeof model.id === "string") return model.id;
    throw new Error("The kernel gateway returned no kernel id; is it a Jupyter Kernel Gateway?");
  }

  /** Whether the gateway still knows a kernel: it forgets those that have ended. */
  async knowsKernel(id: string, signal: AbortSignal): Promise<boolean> {
    const response = await this.#fetch("GET", kernelPath(id), { signal, gone: true });
    await response.body?.cancel();
    return response.ok;
  }

  /** Sends the kernel's process group SIGINT; resolves when it has been sent. */
  async interruptKernel(id: string, signal: AbortSignal): Promise<void> {
    const response = await this.#fetch("POST", `${kernelPath(id)}/interrupt`, { signal });
    await response.body?.cancel();
  }

  /** Ends a kernel; one that does not end by itself is killed by the gateway. */
  async deleteKernel(id: string, signal: AbortSignal): Promise<void> {
    const response = await this.#fetch("DELETE", kernelPath(id), { signal, gone: true });
    await response.body?.cancel();
  }

  /** Opens the WebSocket of a kernel's channels. It is not connected yet. */
  openChannels(id: string, session: string): WebSocket {
    const url = new URL(`${kernelPath(id)}/channels`, this.address.url);
    url.protocol = this.address.url.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("session_id", session);
    const socket = new WebSocket(url, {
      headers: this.#headers(),
      protocols: [KERNEL_PROTOCOL],
      client: this.#client,
    });
    socket.binaryType = "arraybuffer";
    return socket;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#client.close();
    if (this.#options.owned === true) await this.end();
  }

  /** Whether the gateway answers at all. */
  async #answers(): Promise<boolean> {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    try {
      const response = await this.#fetch("GET", "api", { signal });
      await response.body?.cancel();
      return true;
    } catch {
      return false; // the reason does not matter: the earlier failure is reported
    }
  }

  async #fetch(
    method: string,
    path: string,
    options: { body?: string; signal: AbortSignal; gone?: boolean },
  ): Promise<Response> {
    const { body, gone = false } = options;
    using signal = new LinkedSignal(options.signal, this.ended);
    const response = await fetch(new URL(path, this.address.url), {
      method,
      headers: { ...this.#headers(), "Content-Type": "application/json" },
      body: body ?? null,
      client: this.#client,
      redirect: "error",
      signal: signal.signal,
    });
    if (response.ok || (gone && response.status === 404)) return response;
    const text = (await startOf(response, options.signal)).slice(0, 300);
    throw new Error(
      `The kernel gateway answered ${method} ${path} with ${response.status}: ${text}`,
    );
  }

  #headers(): Record<string, string> {
    return { Authorization: `token ${this.address.token}` };
  }
}

/** The limit on an answer, in bytes: executed code can control the gateway. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** The text of an answer, cut to the limit. */
async function startOf(response: Response, signal: AbortSignal): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of bodyOf(response, signal) ?? []) { // leaving the loop cancels the rest
    bytes += chunk.length;
    text += decoder.decode(chunk, { stream: true });
    if (bytes > MAX_ANSWER_BYTES) break;
  }
  return text + decoder.decode();
}

function kernelPath(id: string): string {
  return `api/kernels/${encodeURIComponent(id)}`;
}

function endOf(evidence: ProcessEvidence): KernelDiedError {
  const isKnown = evidence.exitCode !== null || evidence.signal !== null;
  const message = isKnown
    ? `The kernel gateway ended: ${describeExit(evidence)}`
    : "The connection to the kernel gateway has ended";
  return new KernelDiedError(message, evidence);
}
