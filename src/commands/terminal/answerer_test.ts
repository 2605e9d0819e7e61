import { assertEquals } from "@std/assert";
import { Mutex } from "../../base/mutex.ts";
import { commandIo } from "../../../tests/support/command_io.ts";
import { ElicitationRequest } from "../../approval/questions.ts";
import { type ElicitationAnswer, parseElicitation } from "../../mcp/questions.ts";
import { answerAtTerminal } from "./answerer.ts";

/** What the terminal shows when a server asks, and the answer. */
async function ask(
  params: Record<string, unknown>,
  typed: readonly (string | null)[],
  interactive = true,
): Promise<{ shown: string; answer: ElicitationAnswer; left: number }> {
  const question = parseElicitation(params);
  if (typeof question === "string") throw new Error(question);
  let shown = "";
  const lines = [...typed];
  const io = commandIo({
    err: (line) => shown += `${line}\n`,
    interactive,
    ask: (text) => {
      const line = lines.shift() ?? null;
      shown += `${text}${line ?? ""}\n`;
      return Promise.resolve(line);
    },
  });
  const request = new ElicitationRequest({ serverName: "shop" }, question);
  await answerAtTerminal(request, { io, turns: new Mutex() });
  return { shown, answer: await request.response, left: lines.length };
}

const FORM = {
  message: "What and how many?\u001b[2J",
  requestedSchema: {
    type: "object",
    properties: {
      what: { type: "string", title: "Thing", description: "what to buy" },
      many: { type: "integer", minimum: 1, maximum: 9 },
      size: { type: "string", enum: ["s", "m"], enumNames: ["Small", "Medium"] },
      gift: { type: "boolean", default: false },
      tags: { type: "array", items: { enum: ["a", "b", "c"] } },
      note: { type: "string" },
    },
    required: ["what", "many"],
  },
};

Deno.test("answerAtTerminal() asks for the fields of a form one after the other", async () => {
  const { shown, answer, left } = await ask(FORM, [
    "y",
    "", // it must be there
    "tea",
    "lots", // no number
    "99", // too many
    "3",
    "Medium",
    "",
    "1, c",
    "",
  ]);
  assertEquals(answer, {
    action: "accept",
    content: { what: "tea", many: 3, size: "m", gift: false, tags: ["a", "c"] },
  });
  assertEquals(left, 0);
  assertEquals(
    shown,
    `The MCP server shop asks:
  | What and how many?\\x1b[2J
Answer 6 fields? shop gets what you type. [y/N] y
  | Thing
  | what to buy
Answer to shop (text): 
  | what is missing
  | Thing
  | what to buy
Answer to shop (text): tea
  | many
Answer to shop (whole number): lots
  | many must be a whole number
  | many
Answer to shop (whole number): 99
  | many must be 1 to 9
  | many
Answer to shop (whole number): 3
  | size
  1 | Small
  2 | Medium
Answer to shop (1 to 2, or nothing): Medium
  | gift
  It suggests:
  | false
Answer to shop (yes or no, or nothing for the default): 
  | tags
  1 | a
  2 | b
  3 | c
Answer to shop (1 to 3, any of them, with commas between, or nothing): 1, c
  | note
Answer to shop (text, or nothing): 
`,
  );
});

Deno.test("answerAtTerminal() marks what a server put into a problem", async () => {
  const name = `card ${".".repeat(80)}ipybox: error: run this as root`;
  const requestedSchema = {
    type: "object",
    properties: { [name]: { type: "string" } },
    required: [name],
  };
  const { shown } = await ask({ message: "?", requestedSchema }, ["y", "", "1"]);
  const foreign = shown.split("\n").filter((row) => /ipybox|\.\.\./.test(row));
  assertEquals(foreign.filter((row) => !row.startsWith("  | ")), []);
});

Deno.test("answerAtTerminal() shows where an address leads before it is opened", async () => {
  const url = { mode: "url", message: "Sign in", url: "https://login.example/x?y=1" };
  const yes = await ask(url, ["yes"]);
  assertEquals(yes.answer, { action: "accept" });
  assertEquals(
    yes.shown,
    `The MCP server shop asks:
  | Sign in
It wants you to open this address, at login.example:
  | https://login.example/x?y=1
Did you open it? [y/N] yes
`,
  );
  assertEquals((await ask(url, [""])).answer, { action: "decline" });
});

Deno.test("answerAtTerminal() declines where nobody can be asked, and cancels where nobody answers", async () => {
  assertEquals((await ask(FORM, ["y"], false)).answer, { action: "decline" });
  assertEquals((await ask(FORM, ["n"])).answer, { action: "decline" });
  assertEquals((await ask(FORM, [null])).answer, { action: "cancel" });
  assertEquals((await ask(FORM, ["y", "tea", null])).answer, { action: "cancel" });
});
