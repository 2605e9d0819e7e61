import { assertEquals, assertStringIncludes } from "@std/assert";
import { StdioTransport } from "./stdio.ts";
import { namedProgram } from "../process/program.ts";

Deno.test("StdioTransport lets a server whose message is too long see that nobody reads on", async () => {
  const closed = Promise.withResolvers<void>();
  const transport = new StdioTransport({
    command: namedProgram("/bin/sh"),
    args: ["-c", "trap '' TERM; head -c 1000000 /dev/zero; exit 9"],
    env: { PATH: "/usr/bin:/bin" },
    maxMessageBytes: 1000,
  });
  transport.onclose = closed.resolve;
  await transport.start();
  await closed.promise;
  await transport.close();
  assertEquals(await transport.evidence(), { exitCode: 9, signal: null, stderrTail: "" });
  assertStringIncludes(String(transport.failure), "a message of more than 1000 bytes");
});

const EXPENSIVE: readonly (readonly [what: string, output: string, error: string])[] = [
  ["values", "yes '[],' | head -n 1200000 | tr -d '\\n'", "more than 1000000 values"],
  [
    "escapes",
    "printf '\"'; yes '\\\\t' | head -n 17000000 | tr -d '\\n'; printf '\",'",
    "more than 8388608 escapes",
  ],
  ["digits", "head -c 34000000 /dev/zero | tr '\\0' 1; printf ,", "bytes besides strings"],
];

for (const [what, output, error] of EXPENSIVE) {
  Deno.test(`StdioTransport ends with a server whose message has too many ${what}`, async () => {
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
