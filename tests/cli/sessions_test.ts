import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { JournalFile } from "../../src/calls/journal_file.ts";
import { folderOf } from "../../src/executor/durable.ts";
import { inThisProcess } from "../support/command_io.ts";
import { CommandProcess } from "../support/command_process.ts";
import { ipyboxAtTerminal } from "../support/terminal.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("ipybox run --detach, sessions and attach: code runs on, and gives its exit code", async () => {
  await using workspace = await TempFolder.create();
  const at = ["--workspace", workspace.path];
  const code = "import sys; print('begun'); x = 6 * 7; print(x, sys.argv); sys.exit(3)";
  const run = ["run", "-c", code, "--no-sandbox", "--detach", ...at, "--", "a"];
  const detached = await inThisProcess(run);
  assertEquals(detached.code, 0, detached.stderr);
  const id = detached.stdout.trim();
  assertMatch(id, /^[0-9a-f]{12}$/);

  const listed = await inThisProcess(["sessions", ...at, "--json"]);
  const [session, ...others] = JSON.parse(listed.stdout);
  assertEquals([session.id, session.state, session.waiting, others], [id, "detached", [], []]);

  const shown = await inThisProcess(["sessions", "show", id]);
  assertMatch(
    shown.stdout,
    new RegExp(`^ +session +${id}\n +state +detached for .+\n +workspace +${workspace.path}\n`),
  );
  assertEquals((await inThisProcess(["sessions", "show"])).code, 2);
  assertEquals((await inThisProcess(["sessions", "show", "0123456789ab"])).code, 2);

  for (const more of [[], ["--end"]]) {
    const attached = await inThisProcess(["attach", id, ...more]);
    assertEquals([attached.code, attached.stdout], [3, "begun\n42 ['-c', 'a']\n"], attached.stderr);
    const stays = more.length === 0
      ? `Session ${id} stays: \`ipybox sessions end ${id}\` ends it\n`
      : "";
    assertEquals(attached.stderr, stays);
  }
  const gone = await inThisProcess(["attach", id]);
  assertEquals([gone.code, gone.stdout], [2, ""]);
  assertStringIncludes(gone.stderr, `There is no durable session ${id}`);
});

Deno.test("ipybox attach takes the only detached session, or lists all", async () => {
  await using workspace = await TempFolder.create();
  await using state = await TempFolder.create();
  const own = { env: { XDG_STATE_HOME: state.path } };
  await using commands = new CommandProcess(own);
  const attach = () => commands.run(["attach"]);
  const none = await attach();
  assertEquals([none.code, none.stdout], [2, ""]);
  assertStringIncludes(none.stderr, "There is no session to attach to: `ipybox run --detach`");

  const run = ["run", "-c", "print('one')", "--detach", "--workspace", workspace.path];
  const { output } = await ipyboxAtTerminal([...run, "--no-sandbox"], [], own);
  const [, one = ""] = /^([0-9a-f]{12})\n.+ `ipybox attach \1`\n$/m.exec(output) ?? [];
  assertEquals((await attach()).stdout, "one\n", output);

  const { stdout, stderr } = await commands.run(run);
  assertEquals(stderr, "");
  const several = await attach();
  assertEquals([several.code, several.stdout], [2, ""]);
  assertStringIncludes(several.stderr, `Specify which session, as in \`ipybox attach ${one}\`:\n`);
  for (const id of [one, stdout.trim()]) {
    assertStringIncludes(several.stderr, `\n  ${id}  detached for `);
    await commands.run(["sessions", "end", id]);
  }
});

Deno.test("ipybox attach says how to end a session whose code has failed", async () => {
  await using workspace = await TempFolder.create();
  const at = ["--workspace", workspace.path];
  const run = ["run", "-c", "1 / 0", "--no-sandbox", "--detach"];
  const { stdout } = await inThisProcess([...run, ...at]);
  const id = stdout.trim();
  const attached = await inThisProcess(["attach", id]);
  assertEquals(attached.code, 1);
  const stays = `Session ${id} stays: \`ipybox sessions end ${id}\` ends it\n`;
  assert(attached.stderr.startsWith(stays), attached.stderr);
  assertStringIncludes(attached.stderr, "ZeroDivisionError: division by zero");
  assertEquals((await inThisProcess(["attach", id, "--end"])).code, 1);
  assertEquals((await inThisProcess(["sessions", ...at])).stdout, "");
});

Deno.test("ipybox sessions end ends a session whose code runs", async () => {
  await using workspace = await TempFolder.create();
  const at = ["--workspace", workspace.path];
  const code = "import time; time.sleep(1000)";
  const { stdout } = await inThisProcess(["run", "-c", code, "--no-sandbox", "--detach", ...at]);
  const id = stdout.trim();
  {
    using journal = await JournalFile.open(folderOf(id));
    const forged = { serverName: "bank\n0123456789ab  attached", toolName: "\x1b[31m" };
    journal.begin({ id: "call", hash: "hash", kind: "tool", ...forged });
    const shown = await inThisProcess(["sessions", ...at]);
    assertStringIncludes(shown.stdout, `${id}  detached for `);
    assertMatch(shown.stdout, /^.+bank\S+0123456789ab.+\n$/); // one line
    assert(!shown.stdout.includes("\x1b"));
    const told = await ipyboxAtTerminal(["approvals", ...at], [["Waiting for", "\x03"]], {
      columns: 500,
    });
    assertMatch(
      told.output,
      new RegExp(`Session ${id} is detached.+bank.+ipybox attach ${id}\` asks`),
    );
    await Deno.writeTextFile(journal.path, "no database");
    const unread = await inThisProcess(["sessions", ...at]);
    assertStringIncludes(unread.stderr, `Cannot read the call journal ${journal.path}: `);
    assertMatch(
      unread.stdout,
      new RegExp(`${id}.*; code ran when its program left, and may be waiting for you\n$`),
    );
  }
  const ended = await inThisProcess(["sessions", "end", id]);
  assertEquals([ended.code, ended.stderr], [0, ""]);
  const after = await inThisProcess(["sessions", ...at]);
  assertEquals([after.code, after.stdout], [0, ""]);
  const again = await inThisProcess(["sessions", "end", id]);
  assertEquals(again.code, 2);
  assertStringIncludes(again.stderr, `There is no session ${id}`);
});

Deno.test("ipybox run --detach refuses what only counts while it runs", async () => {
  const { code, stderr } = await inThisProcess(["run", "-c", "1", "--detach", "--timeout", "5"]);
  assertEquals(code, 2);
  assert(stderr.includes("--detach and --timeout cannot be combined"), stderr);
});
