import { assertEquals } from "@std/assert";
import { parse } from "@std/dotenv";

Deno.test("parse() reads quotes, comments and export prefixes", () => {
  const text = `# a comment\nA=1\nexport B="two words" # trailing\nC='$A'\nEMPTY=\n`;
  assertEquals(parse(text), { A: "1", B: "two words", C: "$A", EMPTY: "" });
});
