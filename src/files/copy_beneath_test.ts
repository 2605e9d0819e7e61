import { assert, assertEquals, assertRejects } from "@std/assert";
import { swapFolder } from "../../tests/support/attacker.ts";
import { until } from "../../tests/support/wait.ts";
import { filesBelow } from "../../tests/support/files.ts";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import {
  copyBeneath,
  CopyLimitError,
  type CopyOptions,
  folderUsage,
  MAX_COPY_DEPTH,
} from "./copy_beneath.ts";

/** A folder to copy, and an empty one. */
class Folders implements AsyncDisposable {
  private constructor(readonly from: string, readonly to: string, readonly root: TempFolder) {}

  static async create(): Promise<Folders> {
    const root = await TempFolder.create();
    for (const name of ["from", "to"]) await Deno.mkdir(`${root.path}/${name}`);
    return new Folders(`${root.path}/from`, `${root.path}/to`, root);
  }

  async copy(options: Partial<CopyOptions> = {}): Promise<void> {
    await copyBeneath(this.from, this.to, {
      maxEntries: 1000,
      maxBytes: 1000,
      leaveOut: () => false,
      signal: new AbortController().signal,
      ...options,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.root[Symbol.asyncDispose]();
  }
}

Deno.test("copyBeneath() copies files, their mode and time, and links to what is inside", async () => {
  await using folders = await Folders.create();
  const { from, to } = folders;
  await Deno.mkdir(`${from}/a/b`, { recursive: true });
  await Deno.writeTextFile(`${from}/a/b/run`, "text", { mode: 0o755 });
  await Deno.writeTextFile(`${from}/left`, "out");
  const then = new Date(1_600_000_000_000);
  await Deno.utime(`${from}/a/b/run`, then, then);
  for (
    const [name, target] of [
      ["inside", "a/b/run"],
      ["a/up", "../a/b"],
      ["absolute", `${from}/a`],
      ["outside", "../to"],
      ["a/b/far", "../../../x"],
    ] as const
  ) await Deno.symlink(target, `${from}/${name}`);

  await folders.copy({ leaveOut: ({ name }) => name === "left" });

  assertEquals(
    await filesBelow(to),
    new Map([["a/b/run", "text"], ["a/up", "-> ../a/b"], ["inside", "-> a/b/run"]]),
  );
  const copy = await Deno.stat(`${to}/a/b/run`);
  assertEquals([(copy.mode ?? 0) & 0o777, copy.mtime], [0o755, then]);
  await Deno.writeTextFile(`${to}/a/b/run`, "changed");
  assertEquals(await Deno.readTextFile(`${from}/a/b/run`), "text");
});

Deno.test("copyBeneath() leaves out what is no file, and does not wait for it", async () => {
  await using folders = await Folders.create();
  const { from, to } = folders;
  const { success } = await new Deno.Command("mkfifo", { args: [`${from}/pipe`] }).output();
  assert(success);
  using _socket = Deno.listen({ transport: "unix", path: `${from}/socket` });
  await folders.copy();
  assertEquals(await Array.fromAsync(Deno.readDir(to)), []);
});

Deno.test("copyBeneath() ends at its limits", async (t) => {
  await t.step("bytes, which a sparse file has, too", async () => {
    await using folders = await Folders.create();
    await Deno.writeTextFile(`${folders.from}/sparse`, "");
    await Deno.truncate(`${folders.from}/sparse`, 2 ** 40);
    const error = await assertRejects(() => folders.copy(), CopyLimitError);
    assertEquals(error.limit, "bytes");
  });

  await t.step("entries, folders among them", async () => {
    await using folders = await Folders.create();
    for (let i = 0; i < 20; i++) await Deno.mkdir(`${folders.from}/${i}`);
    await folders.copy({ maxEntries: 20 });
    await Deno.mkdir(`${folders.from}/one-more`);
    const other = `${folders.root.path}/other`;
    await Deno.mkdir(other);
    const options = { maxBytes: 1, leaveOut: () => false, signal: new AbortController().signal };
    const error = await assertRejects(
      () => copyBeneath(folders.from, other, { ...options, maxEntries: 20 }),
      CopyLimitError,
    );
    assertEquals(error.limit, "entries");
  });

  await t.step("depth", async () => {
    await using folders = await Folders.create();
    await Deno.mkdir(`${folders.from}${"/d".repeat(MAX_COPY_DEPTH + 1)}`, { recursive: true });
    const error = await assertRejects(() => folders.copy(), CopyLimitError);
    assertEquals(error.limit, "depth");
  });

  await t.step("a file with more bytes than its size says, as one that grows", async () => {
    await using folders = await Folders.create();
    const options = { maxEntries: 10_000, maxBytes: 10, leaveOut: () => false };
    const error = await assertRejects(
      () =>
        copyBeneath("/proc/self/net", folders.to, {
          ...options,
          leaveOut: ({ name }) => name !== "dev",
          signal: new AbortController().signal,
        }),
      CopyLimitError,
    );
    assertEquals(error.limit, "bytes");
  });

  await t.step("its signal", async () => {
    await using folders = await Folders.create();
    await Deno.writeTextFile(`${folders.from}/sparse`, "");
    await Deno.truncate(`${folders.from}/sparse`, 2 ** 40);
    const stop = new AbortController();
    const copying = folders.copy({ maxBytes: 2 ** 41, signal: stop.signal });
    const begun = `${folders.to}/sparse`;
    await until("the copy has begun", () => Deno.stat(begun).then(() => true, () => false));
    stop.abort(new DOMException("Stopped", "AbortError"));
    await assertRejects(() => copying, DOMException, "Stopped");
  });
});

Deno.test("copyBeneath() follows no link that is swapped in", async () => {
  await using folders = await Folders.create();
  const { from, root } = folders;
  const outside = `${root.path}/outside`;
  for (const path of [outside, `${from}/data`]) await Deno.mkdir(path);
  await Deno.writeTextFile(`${outside}/file`, "secret");
  await Deno.writeTextFile(`${from}/data/file`, "own");
  await using _swapper = await swapFolder(`${from}/data`, outside);
  let copied = 0;
  for (let i = 0; i < 500; i++) {
    const to = `${root.path}/to-${i}`;
    await Deno.mkdir(to);
    await copyBeneath(from, to, {
      maxEntries: 1000,
      maxBytes: 1000,
      leaveOut: () => false,
      signal: new AbortController().signal,
    });
    const texts = [...(await filesBelow(to)).values()];
    assert(!texts.includes("secret"), String(i));
    if (texts.includes("own")) copied++;
  }
  assert(copied > 0);
});

Deno.test("folderUsage() adds files up, and follows no link", async () => {
  await using folders = await Folders.create();
  await Deno.mkdir(`${folders.from}/a/b`, { recursive: true });
  await Deno.writeTextFile(`${folders.from}/a/b/file`, "12345");
  await Deno.writeTextFile(`${folders.to}/elsewhere`, "x".repeat(1000));
  await Deno.symlink("/to", `${folders.from}/a/link`);
  await Deno.utime(`${folders.from}/a/b/file`, 0, 4e9);
  const all = await folderUsage(folders.from);
  assertEquals(all, { bytes: 5 + "/to".length, changedAt: 4e12 });
  await Deno.symlink(folders.to, `${folders.root.path}/link`);
  assertEquals((await folderUsage(`${folders.root.path}/link`)).bytes, folders.to.length);
});

Deno.test("folderUsage() remembers no names of files, of which code can make millions", async () => {
  await using folders = await Folders.create();
  const make = `import os, sys
for i in range(60_000):
    if i % 30_000 == 0: open(f"source{i}", "w").close(); source = f"source{i}"
    os.link(source, f"{i:0250}")`;
  const python = new Deno.Command("python3", { args: ["-c", make], cwd: folders.from });
  assert((await python.output()).success);
  const before = Deno.memoryUsage().heapUsed;
  let most = 0;
  const look = setInterval(() => most = Math.max(most, Deno.memoryUsage().heapUsed), 10);

  await folderUsage(folders.from);

  clearInterval(look);
  assert(most - before < 40 * 2 ** 20, `${(most - before) / 2 ** 20} MiB`);
});
