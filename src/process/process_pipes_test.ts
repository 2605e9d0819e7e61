import { assertEquals, assertRejects } from "@std/assert";
import { bytesOf } from "../base/streams.ts";
import { ProcessPipes } from "./managed_process.ts";

/** A shell script whose stdin and stdout are pipes; disposing it ends it. */
class Shell implements AsyncDisposable {
  readonly pipes: ProcessPipes;
  readonly #end = new AbortController();
  readonly #child: Deno.ChildProcess;

  constructor(script: string) {
    this.#child = new Deno.Command("/bin/sh", {
      args: ["-c", script],
      stdin: "piped",
      stdout: "piped",
      stderr: "null",
      signal: this.#end.signal,
    }).spawn();
    this.pipes = new ProcessPipes("the script", this.#child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.pipes.close();
    this.#end.abort();
    await this.#child.status;
  }
}

Deno.test("ProcessPipes gives bytes that later reads leave alone, in small pieces and in large ones", async () => {
  await using shell = new Shell("exec cat");
  const pieces: Uint8Array[] = [];
  const sent: Uint8Array[] = [];
  for (const [value, size] of [[1, 3], [2, 60_000], [3, 5], [4, 9000], [5, 1]] as const) {
    const bytes = new Uint8Array(size).fill(value);
    sent.push(bytes);
    await shell.pipes.write(bytes);
    for (let got = 0; got < size;) {
      const piece = await shell.pipes.read() ?? new Uint8Array(size);
      pieces.push(piece);
      got += piece.length;
    }
  }
  assertEquals(await joined(pieces), await joined(sent));
});

Deno.test("ProcessPipes gives all of the output, and then its end for good", async () => {
  await using shell = new Shell("head -c 300000 /dev/zero; echo end");
  const pieces = await Array.fromAsync(bytesOf(shell.pipes));
  const text = new TextDecoder().decode(await joined(pieces));
  assertEquals([text.length, text.slice(-4)], [300_004, "end\n"]);
  await shell.pipes.outputEnded;
  assertEquals(await shell.pipes.read(), null);
});

Deno.test("close() ends a read that waits, and reports that the pipes are gone", async () => {
  await using shell = new Shell("exec sleep 1000");
  assertEquals(shell.pipes.wasRead, false);
  const reading = shell.pipes.read();
  assertEquals(shell.pipes.wasRead, true);
  shell.pipes.close();
  assertEquals(await reading, null);
  await shell.pipes.outputEnded;
  await shell.pipes.closed;
  assertEquals(await shell.pipes.read(), null);
});

Deno.test("end() lets what was written arrive, and nothing after it", async () => {
  await using shell = new Shell("exec cat");
  const writing = shell.pipes.write(new Uint8Array(200_000));
  await shell.pipes.end();
  const late = () => shell.pipes.write(new Uint8Array(1));
  await assertRejects(late, Error, "Cannot write to the script: its stdin is closed");
  const arrived = await joined(await Array.fromAsync(bytesOf(shell.pipes)));
  await writing;
  assertEquals(arrived.length, 200_000);
});

Deno.test("dropInput() gives up what waits to be written", async () => {
  await using shell = new Shell("exec sleep 1000");
  const writing = assertRejects(() => shell.pipes.write(new Uint8Array(1 << 20)), Error, "stdin");
  shell.pipes.dropInput();
  await writing;
});

async function joined(pieces: readonly Uint8Array[]): Promise<Uint8Array> {
  return await new Blob(pieces.map((piece) => new Uint8Array(piece))).bytes();
}
