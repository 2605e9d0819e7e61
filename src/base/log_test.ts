import { assertEquals } from "@std/assert";
import { printable } from "./log.ts";

Deno.test("printable() leaves nothing that steers a terminal or hides text", () => {
  assertEquals(
    printable("\x1b[2J\x07a\rb\u202ec\x9bd"),
    "\\u001b[2J\\u0007a\\u000db\\u202ec\\u009bd",
  );
  assertEquals(printable("two\n\tlines é 漢"), "two\n\tlines é 漢");
});

Deno.test("stderrLogger() lets no message steer the terminal or pass for another", async () => {
  const code = `
    import { stderrLogger } from ${JSON.stringify(new URL("./log.ts", import.meta.url).href)};
    stderrLogger("debug").debug("server: \\x1b]0;title\\x07\\nipybox: error: forged\\n  indented");`;
  const { stderr } = await new Deno.Command(Deno.execPath(), { args: ["eval", code] }).output();
  assertEquals(
    new TextDecoder().decode(stderr),
    "ipybox: server: \\u001b]0;title\\u0007\n  ipybox: error: forged\n  indented\n",
  );
});
