import { assertEquals, assertStringIncludes } from "@std/assert";
import { StdioTransport } from "./stdio.ts";
import { namedProgram } from "../process/program.ts";

Deno.test("StdioTransport lets a server whose message is too long see that nobody reads on", async () => {
  const closed = Promise.withResolvers<void>();
  const transport = new StdioTransport({
    command: namedProgram("/bin/sh"),
    args: ["-c", "trap '' TERM; head -c 100000000 /dev/zero; exit 9"],
    env: { PATH: "/usr/bin:/bin" },
  });
  transport.onclose = closed.resolve;
  await transport.start();
  await closed.promise;
  await transport.close();
  assertEquals(await transport.evidence(), { exitCode: 9, signal: null, stderrTail: "" });
  assertStringIncludes(String(transport.failure), "a message of more than 67108864 bytes");
});

const MALICIOUS: readonly (readonly [what: string, output: string, error: string])[] = [
  ["has too many values", "yes '[],' | head -n 1200000 | tr -d '\\n'", "more than 1000000 values"],
  ["nests too deep", "yes '[' | head -n 3000 | tr -d '\\n'", "nests more than 500 levels"],
];

for (const [what, output, error] of MALICIOUS) {
  Deno.test(`StdioTransport ends with a server whose message ${what}`, async () => {
    const closed = Promise.withResolvers<void>();
    const transport = new StdioTransport({
      command: namedProgram("/bin/sh"),
      args: ["-c", `printf '{"x":['; ${output}; echo '1]}'; sleep 60`],
      env: { PATH: "/usr/bin:/bin" },
    });
    transport.onclose = closed.resolve;
    await transport.start();
    await closed.promise;
    await transport.close();
    assertStringIncludes(String(transport.failure), error);
  });
}
