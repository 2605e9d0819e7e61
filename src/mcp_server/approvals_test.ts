import { assertEquals } from "@std/assert";
import { FakeTime } from "../../tests/support/fake_time.ts";
import { type AskingCell, ElicitationRounds, type RoundRequest } from "./approvals.ts";

/** A cell that records how it is ended. */
class Cell implements AskingCell {
  readonly id: string = crypto.randomUUID();
  cancelled = false;

  constructor(readonly code: string) {}

  decide(): Promise<void> {
    return Promise.resolve();
  }

  answer(): void {}

  moveToPage(): void {}

  cancel(): void {
    this.cancelled = true;
  }
}

/** A request of the newer era, which ends with the question, or of the older one, which stays open. */
function request(era: "newer" | "older", signal = new AbortController().signal): RoundRequest {
  const mcpReq = { signal, requestState: () => undefined };
  return { mcpReq: era === "older" ? mcpReq : { ...mcpReq, envelope: {} } };
}

Deno.test("ElicitationRounds ends a cell that is not asked for again within ten minutes", async () => {
  using time = new FakeTime();
  using rounds = new ElicitationRounds<Cell>();
  const cell = new Cell("a");
  await asked(rounds, cell, request("newer"));
  time.advance(10 * 60_000 - 1);
  assertEquals(cell.cancelled, false);
  time.advance(1);
  assertEquals(cell.cancelled, true);
});

Deno.test("ElicitationRounds gives a cell half a minute more once another one comes", async () => {
  using time = new FakeTime();
  using rounds = new ElicitationRounds<Cell>();
  const cell = new Cell("a");
  await asked(rounds, cell, request("newer"));
  rounds.onNewCell("b");
  time.advance(29_999);
  assertEquals(cell.cancelled, false);
  time.advance(1);
  assertEquals(cell.cancelled, true);
});

Deno.test("ElicitationRounds lets the same cell take over at once", async () => {
  using _time = new FakeTime();
  using rounds = new ElicitationRounds<Cell>();
  const cell = new Cell("a");
  await asked(rounds, cell, request("newer"));
  rounds.onNewCell("a");
  assertEquals(cell.cancelled, true);
});

Deno.test("ElicitationRounds leaves a cell alone whose request is open, until that is cancelled", async () => {
  using time = new FakeTime();
  using rounds = new ElicitationRounds<Cell>();
  const cell = new Cell("a");
  const cancel = new AbortController();
  await asked(rounds, cell, request("older", cancel.signal));
  rounds.onNewCell("a");
  rounds.onNewCell("b");
  time.advance(60_000);
  assertEquals(cell.cancelled, false);
  cancel.abort();
  assertEquals(cell.cancelled, true);
});

/** Asks any question. */
async function asked(
  rounds: ElicitationRounds<Cell>,
  cell: Cell,
  ctx: RoundRequest,
): Promise<void> {
  await rounds.ask(cell, [], { ctx });
}
