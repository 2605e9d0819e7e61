/**
 * What the attacks share: a host with secrets, and an executor whose code is hostile.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { z } from "zod";
import { readAuditLog, verifyAuditLog } from "../../src/approval/audit/reader.ts";
import type { ApprovalRequest } from "../../src/approval/request.ts";
import type { CodeExecutor } from "../../src/executor/code_executor.ts";
import { ServerRegistry } from "../../src/servers/registry.ts";
import { follow, TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { TempFolder } from "../support/temp_folder.ts";

/** What every attack has: a way to try something and say what came of it. */
export const TOOLS: string = `
import hashlib, http.client, json, os, pathlib, re, shutil, socket, subprocess, sys, threading, time
results = {}
def attempt(name, action):
    try:
        results[name] = repr(action())
    except BaseException as error:
        results[name] = type(error).__name__
def write(path):
    with open(path, "a") as file:
        return file.write("hostile")
DOOR = os.environ["IPYBOX_TOOL_URL"].rpartition(":")[2]
TOKEN = os.environ["IPYBOX_TOOL_TOKEN"]
def ask(port, method, path, body=None, token=TOKEN, headers={}, wait=10):
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=wait)
    connection.request(method, path, None if body is None else json.dumps(body), {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers,
    })
    answer = connection.getresponse()
    return answer.status, answer.read().decode()
def open_ports():
    ports = set()
    for name in ("tcp", "tcp6"):
        for line in open(f"/proc/net/{name}").readlines()[1:]:
            address, state = line.split()[1], line.split()[3]
            if state == "0A": # it listens
                ports.add(int(address.rpartition(":")[2], 16))
    return sorted(ports)
def send(port, *pieces, wait=10):
    """Sends bytes as they are, those of callables once they return, and gives the lines that come back."""
    with socket.create_connection(("127.0.0.1", int(port)), wait) as connection:
        for piece in pieces:
            connection.sendall(piece() if callable(piece) else piece)
        answer = b""
        try:
            while not answer.endswith(b"\\n") and (part := connection.recv(65536)):
                answer += part
        except TimeoutError:
            pass
        return answer.decode(errors="replace")
def request(body, call="run", token=TOKEN, **head):
    body = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
    return json.dumps({"token": token, "call": call, "size": len(body), **head}).encode() + b"\\n" + body
def outcome(answer):
    answer = json.loads(answer.splitlines()[-1])
    if "refused" in answer:
        return "refused: " + answer["refused"]
    return answer["error"]["type"] if "error" in answer else next(iter(answer))
def call(name, body, wait=10, **head):
    return outcome(send(DOOR, request(json.dumps(body), name, **head), wait=wait))
def say():
    print("RESULTS", json.dumps(results))
`;

/** Runs attacks, whose outcomes are what they returned, as Python writes it, or an exception's name. */
export async function attack(
  executor: CodeExecutor,
  code: string,
  decide: (request: ApprovalRequest) => unknown = () => {},
): Promise<Record<string, string>> {
  const { result } = await follow(executor, `${code}\nsay()`, decide, { timeoutMs: 60_000 });
  const said = /^RESULTS (.*)$/m.exec(result?.text ?? "")?.[1] ?? "";
  return z.record(z.string(), z.string()).parse(JSON.parse(said));
}

/** All that an attack may end with where it must fail. */
export const DENIED: RegExp =
  /^(PermissionError|FileNotFoundError|OSError|NotADirectoryError|FileExistsError)$/;

/** A port of the host that counts who connects. */
export class CanaryPort implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly port: number = this.#listener.addr.port;
  visitors = 0;
  readonly #serving = this.#serve();

  async #serve(): Promise<void> {
    for await (const connection of this.#listener) {
      this.visitors++;
      connection.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#serving;
  }
}

/**
 * The variable with the host's secret. Files that are tested at once share one environment: none may
 * take away another one's.
 */
export const SECRET: string = `IPYBOX_TEST_SECRET_${crypto.randomUUID().replaceAll("-", "")}`;

/** A host with secrets, and an executor whose code is hostile. */
export class Siege implements AsyncDisposable {
  readonly #parts: AsyncDisposableStack;

  private constructor(
    parts: AsyncDisposableStack,
    readonly sandbox: boolean,
    readonly executor: CodeExecutor,
    readonly workspace: string,
    /** A folder in the user's home with a secret in the file `canary`. */
    readonly home: string,
    /** What the gated MCP server has been asked. */
    readonly journal: string,
    readonly canary: CanaryPort,
  ) {
    this.#parts = parts;
  }

  static async begin(sandbox: boolean): Promise<Siege> {
    await using parts = new AsyncDisposableStack();
    const home = parts.use(await TempFolder.create(Deno.env.get("HOME") ?? "/"));
    await Deno.writeTextFile(`${home.path}/canary`, "of the user");
    const canary = parts.use(new CanaryPort());
    Deno.env.set(SECRET, "of the host");
    parts.defer(() => Deno.env.delete(SECRET));
    const workspace = parts.use(await TempFolder.create());
    await Deno.writeTextFile(`${workspace.path}/.env`, "API_KEY=of the file\n");
    await Deno.mkdir(`${workspace.path}/.ipybox`);
    await Deno.mkdir(`${workspace.path}/mcptools/good`, { recursive: true });
    await Deno.writeTextFile(`${workspace.path}/mcptools/good/__init__.py`, "GOOD = True\n");
    const journal = `${home.path}/journal`;
    const server = { ...rawServer("normal", journal), env: { KEY: `\${${SECRET}}` } };
    const registry = await ServerRegistry.open({ workspace: workspace.path });
    await registry.register("raw", server);
    const { executor } = parts.use(
      await TestExecutor.start({ sandbox, workspace: workspace.path }),
    );
    await executor.execute(TOOLS);
    return new Siege(parts.move(), sandbox, executor, workspace.path, home.path, journal, canary);
  }

  /** How often the gated tool was called. */
  async calls(): Promise<number> {
    const text = await Deno.readTextFile(this.journal).catch(() => ""); // it was never started
    return text.split("\n").filter((line) => line === "tools/call").length;
  }

  /** Checks that the server was sent exactly the calls that the audit log says were allowed. */
  async checkDecisions(allowed: number): Promise<void> {
    const decisions = (await Array.fromAsync(readAuditLog(this.workspace)))
      .filter(({ kind, decision }) => kind === "tool" && decision === "allow");
    assertEquals([await this.calls(), decisions.length], [allowed, allowed]);
    const { bad } = await verifyAuditLog(this.workspace);
    assertEquals(bad, undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}
