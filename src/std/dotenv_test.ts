import { assertEquals } from "@std/assert";
import { load, parse } from "@std/dotenv";

Deno.test("parse() reads quotes, comments and export prefixes", () => {
  const text = `# a comment\nA=1\nexport B="two words" # trailing\nC='$A'\nEMPTY=\n`;
  assertEquals(parse(text), { A: "1", B: "two words", C: "$A", EMPTY: "" });
});

Deno.test("load() takes a missing file as one without variables", async () => {
  const directory = await Deno.makeTempDir();
  try {
    assertEquals(await load({ envPath: `${directory}/.env` }), {});
    await Deno.writeTextFile(`${directory}/.env`, "IPYBOX_TEST_LOAD=yes");
    assertEquals(await load({ envPath: `${directory}/.env` }), { IPYBOX_TEST_LOAD: "yes" });
    assertEquals(Deno.env.get("IPYBOX_TEST_LOAD"), undefined);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
