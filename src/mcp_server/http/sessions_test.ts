import { assertEquals, assertRejects } from "@std/assert";
import { silentLogger } from "../../base/log.ts";
import { testPython } from "../../../tests/support/python.ts";
import { TempFolder } from "../../../tests/support/temp_folder.ts";
import { Session } from "../session.ts";
import { SessionPool } from "./sessions.ts";

/** How sessions of these tests start. What one of them leaves open, the test runner reports. */
const OPTIONS = { sandbox: false, spareKernel: false, log: silentLogger };

Deno.test("SessionPool closes sessions that are being opened, and opens no others", async () => {
  await using workspace = await TempFolder.create();
  const session = { ...OPTIONS, python: testPython() };
  const pool = new SessionPool({
    workspace: workspace.path,
    session,
    owners: new Map([["a", {}]]),
  });
  const opening = pool.open("a");

  await pool[Symbol.asyncDispose]();

  const { id } = await opening;
  assertEquals(pool.find("a", id), undefined);
  await assertRejects(() => pool.open("a"), DOMException, "The server is stopping");
});

Deno.test("Session takes back what it announces while it is closed", async () => {
  await using workspace = await TempFolder.create();
  const closed = Promise.withResolvers<void>();
  const close = () => session[Symbol.asyncDispose]().then(closed.resolve, closed.reject);
  let reads = 0;
  const session = new Session({
    ...OPTIONS,
    python: testPython(),
    workspace: workspace.path,
    get label() { // is read with all options at the start, and when the kernel runs, to be announced
      if (++reads === 2) queueMicrotask(close);
      return "closed";
    },
  });

  await session.parts;
  await closed.promise;
});
