import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { TempFolder } from "../../tests/support/temp_folder.ts";
import { UsageError } from "./command.ts";
import { readTokenFile } from "./token_file.ts";

const ALICE = "alice-alice-alice-alice";
const BOB = "bob-bob-bob-bob-bob-bob";

async function read(text: string) {
  await using folder = await TempFolder.create();
  const file = join(folder.path, "tokens");
  await Deno.writeTextFile(file, text);
  return await readTokenFile(file, (where, from) => {
    if (where !== "a.json") throw new UsageError("no such placement");
    assertEquals(from, folder.path);
    return Promise.resolve({ type: "kubernetes", namespace: "team-a" } as const);
  });
}

Deno.test("A line of the token file is a token, which settings may follow", async () => {
  const text =
    `# ours\n\n  ${ALICE} \r\n${BOB}\tsessions=4  placement=a.json\n${ALICE}\n${ALICE}==`;
  const plain = { placement: undefined, maxSessions: undefined };
  assertEquals(await read(text), [
    { token: ALICE, ...plain },
    { token: BOB, placement: { type: "kubernetes", namespace: "team-a" }, maxSessions: 4 },
    { token: ALICE, ...plain },
    { token: `${ALICE}==`, ...plain },
  ]);
});

Deno.test("A line that is wrong is named, and no token", async () => {
  const only = "only placement=WHERE and sessions=N can follow";
  for (
    const [line, why] of [
      ["short", "must have 16 to 1000 characters"],
      [`${BOB} ${ALICE}`, only],
      [`${BOB},${ALICE}`, "must have 16 to 1000 characters"],
      [`${BOB} session=4`, only],
      [`${BOB} sessions=`, only],
      [`${BOB} sessions=0`, 'sessions takes a whole number above 0: received "0"'],
      [`${BOB} sessions=1.5`, 'received "1.5"'],
      [`${BOB} sessions=2 sessions=3`, "sessions is given twice"],
      [`${BOB} placement=b.json`, "no such placement"],
      [`${ALICE} sessions=2`, "twice: keep one"],
    ] as const
  ) {
    const error = await assertRejects(() => read(`${ALICE}\n# bob's\n${line}\n`), UsageError, why);
    assertEquals(/Line 3 of "\/.*\/tokens": /.test(error.message), true, error.message);
    for (const secret of ["alice", "bob-", "short"]) {
      assertEquals(error.message.includes(secret), false, error.message);
    }
  }
});
