/** What of the sandbox runs as long as a session does. */
import { assert, assertEquals } from "@std/assert";
import { setTimeout as delay } from "node:timers/promises";
import { TestExecutor } from "../support/executor.ts";
import { processesWith } from "../support/processes.ts";
import { testIf } from "../support/skip.ts";

const RUNTIME = ["deno", "node", "socat", "srt"];

testIf(Deno.build.os === "linux", "other systems have no list of processes to look at", {
  name: "a session that may reach no host has nothing but its code and its sandbox",
  fn: async () => {
    await using test = await TestExecutor.start();
    const programs = await programsOf(test);
    assert(programs.includes("bwrap"), programs.join(" ")); // they are found at all
    assertEquals(programs.filter((name) => RUNTIME.includes(name)), []);
  },
});

testIf(Deno.build.os === "linux", "other systems make nothing in the place of what is not there", {
  name:
    "a session that may reach a host has the relays to the proxy, and leaves no file that must not be made",
  fn: async () => {
    const config = {
      network: { allowedDomains: ["example.org"] },
      filesystem: { denyWrite: ["absent/file.txt"] },
    };
    await using test = await TestExecutor.start({ sandbox: { config } });
    const programs = await programsOf(test);
    assert(programs.includes("socat"), programs.join(" "));
    const { executor, workspace } = test;
    const { text } = await executor.execute(
      "import os\ntry:\n    os.makedirs('absent')\nexcept OSError as error:\n    print('refused')",
    );
    assertEquals(text, "refused");
    await executor[Symbol.asyncDispose]();
    const left = await Array.fromAsync(Deno.readDir(workspace));
    assertEquals(left.filter(({ name }) => name === "absent"), []);
  },
});

testIf(Deno.build.os === "linux", "other systems delay acknowledgements in other ways", {
  name: "what small pieces carry to an allowed host and back waits for no acknowledgement",
  fn: async () => {
    using server = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const serving = (async () => {
      for await (const connection of server) await answerInPieces(connection);
    })();
    const config = { network: { allowedDomains: ["127.0.0.1"] } };
    await using test = await TestExecutor.start({ sandbox: { config } });
    const { text } = await test.executor.execute(`PORT = ${server.addr.port}\n${ASK_IN_PIECES}`);
    server.close();
    await serving;
    assert(Number(text) < 0.03, `${text}`); // one that is delayed takes 0.04 s
  },
});

/** The names of the programs of a session, each of which has its folder on its command line. */
async function programsOf({ executor }: TestExecutor): Promise<string[]> {
  const { text } = await executor.execute("import os; print(os.environ['HOME'])");
  const root = text?.split("/session/")[0] ?? "";
  const names = await Promise.all((await processesWith(root)).map(async (pid) => {
    const line = await Deno.readTextFile(`/proc/${pid}/cmdline`).catch(() => ""); // it has ended
    return line.split("\0")[0]?.split("/").at(-1) ?? "";
  }));
  return names;
}

/** Answers two pieces with two, at intervals as in a handshake of TLS. */
async function answerInPieces(connection: Deno.TcpConn): Promise<void> {
  connection.setNoDelay();
  const piece = new Uint8Array(1);
  for (let got = 0; await connection.read(piece) !== null;) {
    if (++got % 2 > 0) continue;
    await connection.write(piece);
    await delay(2);
    await connection.write(piece);
  }
  connection.close();
}

/** Prints how long an exchange takes through the sandbox's proxy where other programs hardly slow it down. */
const ASK_IN_PIECES = `
import base64, os, socket, time
from urllib.parse import unquote, urlsplit

proxy = urlsplit(os.environ["HTTPS_PROXY"])
pair = f"{unquote(proxy.username)}:{unquote(proxy.password)}".encode()
lines = [
    f"CONNECT 127.0.0.1:{PORT} HTTP/1.1",
    f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}",
]
times = []
with socket.create_connection((proxy.hostname, proxy.port)) as sock, sock.makefile("rb") as file:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall("".join(line + "\\r\\n" for line in [*lines, ""]).encode())
    assert b" 200 " in file.readline()
    while file.readline().strip():
        pass
    for _ in range(40):
        start = time.perf_counter()
        sock.sendall(b"a")
        time.sleep(0.002)
        sock.sendall(b"b")
        file.read(2)
        times.append(time.perf_counter() - start)
print(sorted(times)[3])
`;
