import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { until } from "../../tests/support/wait.ts";
import { testPython } from "../../tests/support/python.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { ManagedProcess } from "../process/managed_process.ts";
import { namedProgram } from "../process/program.ts";
import { archiveOf } from "./boot.ts";
import { PathError, pathParts, WorkspaceFiles } from "./workspace_files.ts";

const program = new URL("../../templates/launcher/file.py", import.meta.url).pathname;

/** A workspace whose files a program reads and writes, by default ours. */
function workspace(parts: AsyncDisposableStack, ...args: readonly string[]): WorkspaceFiles {
  return new WorkspaceFiles(() => {
    const command = namedProgram(testPython());
    return parts.use(ManagedProcess.spawn({ command, args, env: {}, inputGraceMs: 0 })).pipes;
  });
}

async function* pieces(...texts: readonly string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield await Promise.resolve(new TextEncoder().encode(text));
}

Deno.test("WorkspaceFiles reads and writes files, and says why it cannot", async () => {
  await using parts = new AsyncDisposableStack();
  const { path } = parts.use(await TempFolder.create());
  const far = workspace(parts, program, path);
  const long = "0123456789".repeat(50_000);
  await far.write(["data", "new", "a.txt"], pieces("some ", "bytes ", long));
  assertEquals(
    await new Response(await far.read(["data", "new", "a.txt"])).text(),
    `some bytes ${long}`,
  );
  await far.write(["empty"], pieces());
  assertEquals(await new Response(await far.read(["empty"])).text(), "");

  const missing = await assertRejects(() => far.read(["none"]), PathError, "No such file");
  assertEquals(missing.reason, "missing");
  for (const path of ["", "/etc/passwd", "../x", "a/../b", "a//b", "a/.", "a\0b"]) {
    assertThrows(() => pathParts(path), PathError, "Cannot use the path");
  }
  const folder = await assertRejects(() => far.read(["data"]), PathError, "Is a directory");
  assertEquals(folder.reason, "refused");
  await assertRejects(() => far.write(["data"], pieces("x")), PathError, "Is a directory");
  const refused = await assertRejects(
    () => far.write(["x".repeat(300), "y"], pieces("x")),
    PathError,
    "File name too long",
  );
  assertEquals(refused.reason, "refused");
  assertEquals((await Array.fromAsync(Deno.readDir(path))).map(({ name }) => name).sort(), [
    "data",
    "empty",
  ]);
});

Deno.test("WorkspaceFiles lists a folder, and says why it cannot", async () => {
  await using parts = new AsyncDisposableStack();
  const { path } = parts.use(await TempFolder.create());
  const far = workspace(parts, program, path);
  await far.write(["data", "a.txt"], pieces("hello"));
  await Deno.symlink("/etc", `${path}/data/link`);
  const modified = (await Deno.stat(`${path}/data/a.txt`)).mtime?.toISOString();
  const [data] = await far.list([]);
  assertEquals([data?.name, data?.type, data?.size], ["data", "folder", 0]);
  const [file, link] = (await far.list(["data"])).sort((a, b) => a.name < b.name ? -1 : 1);
  assertEquals(file, { name: "a.txt", type: "file", size: 5, modified });
  assertEquals([link?.name, link?.type, link?.size], ["link", "link", 0]);

  const missing = await assertRejects(() => far.list(["none"]), PathError, "No such file");
  assertEquals(missing.reason, "missing");
  const more = Array.from({ length: 10_000 }, (_, i) => `${path}/data/${i}`);
  await Promise.all(more.map((name) => Deno.link(`${path}/data/a.txt`, name)));
  await assertRejects(() => far.list(["data"]), PathError, "more than 10000 entries");
});

Deno.test("WorkspaceFiles replaces a folder as a whole", async () => {
  await using parts = new AsyncDisposableStack();
  const { path } = parts.use(await TempFolder.create());
  const far = workspace(parts, program, "/elsewhere");
  const { signal } = new AbortController();
  for (const name of ["first.py", "second.py"]) {
    const archive = await archiveOf([{ path: `deep/${name}`, text: "ä\n" }]);
    await far.replaceFolder(`${path}/copy`, archive, signal);
    assertEquals(await Deno.readTextFile(`${path}/copy/deep/${name}`), "ä\n");
  }
  const names = async (folder: string) =>
    await Array.fromAsync(Deno.readDir(folder), ({ name }) => name);
  assertEquals([await names(path), await names(`${path}/copy/deep`)], [["copy"], ["second.py"]]);
  const failing = () => far.replaceFolder("/proc/copy", new Uint8Array(0), signal);
  await assertRejects(failing, PathError, "no answer");
});

Deno.test("WorkspaceFiles removes what an upload that broke off has left, and nothing that is written", async () => {
  await using parts = new AsyncDisposableStack();
  const { path } = parts.use(await TempFolder.create());
  const far = workspace(parts, program, path);
  const names = async () => (await Array.fromAsync(Deno.readDir(path), ({ name }) => name)).sort();
  const begin = async (name: string) => {
    const before = `${await names()}`;
    const process = parts.use(ManagedProcess.spawn({
      command: namedProgram(testPython()),
      args: [program, path],
      env: {},
    }));
    const order = `${JSON.stringify({ parts: [name], does: "write" })}\nhalf`;
    await process.pipes.write(new TextEncoder().encode(order));
    await until("it is written", async () => !["", before].includes(`${await names()}`));
    return process;
  };
  const broken = await begin("broken");
  Deno.kill(broken.pid, "SIGKILL");
  await broken.exited;
  const slow = await begin("slow");
  assertEquals((await names()).length, 1);
  await far.write(["whole"], pieces("all"));
  await slow.pipes.end();
  assertEquals((await slow.exited).exitCode, 0);
  assertEquals(await names(), ["slow", "whole"]);
  assertEquals(await Deno.readTextFile(`${path}/slow`), "half");
});

Deno.test("WorkspaceFiles takes neither a part of a file nor more than it", async () => {
  const answer = '{"error": null, "missing": false, "size": 5}';
  for (const said of ["abc", "abcdefg"]) {
    await using parts = new AsyncDisposableStack();
    const answers = `input(); print('${answer}\\n${said}', end="")`;
    const far = workspace(parts, "-c", answers);
    const bytes = await far.read(["file"]);
    await assertRejects(() => new Response(bytes).text(), Error, "changed its size");
  }
});
