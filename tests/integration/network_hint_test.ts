/** What code is told of hosts that it cannot reach. */
import { assert, assertMatch } from "@std/assert";
import { TestExecutor } from "../support/executor.ts";
import { rejection } from "../support/wait.ts";

const CONNECT = "import socket; socket.create_connection(('example.com', 443), 5)";

for (
  const [name, allowedDomains, hint] of [
    ["without allowed hosts, the setting is named", [], /\[ipybox\] No network: .*allowedDomains/],
    ["with allowed hosts, the proxy is named", ["example.com"], /\[ipybox\] .*trust_env=True/],
  ] as const
) {
  Deno.test(`A library that finds no host: ${name}`, async () => {
    const config = { network: { allowedDomains: [...allowedDomains] } };
    await using test = await TestExecutor.start({ sandbox: { config } });
    assertMatch(String(await rejection(test.executor.execute(CONNECT))), hint);
  });
}

Deno.test("Without the sandbox, it is not the sandbox that keeps code from a host", async () => {
  await using test = await TestExecutor.start({ sandbox: false });
  const code = "import socket; raise socket.gaierror(-3, 'Temporary failure in name resolution')";
  const error = String(await rejection(test.executor.execute(code)));
  assert(!error.includes("[ipybox]"), error);
});
