import { assertEquals } from "@std/assert";
import { type Key, TypedKeys } from "./typed_keys.ts";

/** The keys in bytes that arrive in chunks. */
async function keysOf(...chunks: readonly (string | Uint8Array)[]): Promise<string[]> {
  const left = chunks.map((chunk) =>
    typeof chunk === "string" ? new TextEncoder().encode(chunk) : chunk
  );
  const keys = new TypedKeys(() => Promise.resolve(left.shift() ?? null));
  const all: string[] = [];
  for (;;) {
    const key: Key = await keys.next();
    if (key.type === "end") return all;
    all.push(key.type === "key" ? `<${key.name}>` : `${key.type} ${JSON.stringify(key.text)}`);
  }
}

Deno.test("keys are told by their names, and characters as they are", async () => {
  assertEquals(await keysOf("aé😀\r\n\t\x7f\x03\x12\x1b[A\x1b[1;5D\x1bb\x1b\r\x1b[3~\x1b[H"), [
    'text "a"',
    'text "é"',
    'text "😀"',
    "<return>",
    "<enter>",
    "<tab>",
    "<backspace>",
    "<ctrl-c>",
    "<ctrl-r>",
    "<up>",
    "<ctrl-left>",
    "<meta-b>",
    "<meta-return>",
    "<delete>",
    "<home>",
  ]);
});

Deno.test("what is pasted is one text, however it arrives", async () => {
  const pasted = 'paste "if x:\\n\\ta\\n\\u0003"';
  const bytes = "1\x1b[200~if x:\r\ta\r\n\x03\x1b[201~2";
  assertEquals(await keysOf(bytes), ['text "1"', pasted, 'text "2"']);
  for (let at = 5; at < bytes.length; at++) {
    assertEquals(
      await keysOf(bytes.slice(0, at), bytes.slice(at)),
      ['text "1"', pasted, 'text "2"'],
      `cut at ${at}`,
    );
  }
});

Deno.test("a character whose bytes arrive one by one is one", async () => {
  const bytes = new TextEncoder().encode("😀");
  assertEquals(await keysOf(...Array.from(bytes, (byte) => Uint8Array.of(byte))), ['text "😀"']);
});

Deno.test("Ctrl-C comes as a signal while nothing is typed", async () => {
  const keys = new TypedKeys(() => new Promise(() => {}));
  const key = keys.next();

  keys.interrupt();

  assertEquals(await key, { type: "key", name: "ctrl-c" });
  keys.interrupt();
  keys.drop();
  assertEquals(keys.isEmpty, true);
});
