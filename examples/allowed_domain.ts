// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * A sandbox with one domain: code reaches that host, and no other.
 *
 * Run it with `deno run -A examples/allowed_domain.ts [DOMAIN]`.
 *
 * @module
 */
import { CodeExecutor } from "@ipybox/ipybox";

const FETCH = `
import os
import urllib.error
import urllib.request

for host in [os.environ["ALLOWED"], "not-allowed.example"]:
    try:
        with urllib.request.urlopen(f"https://{host}/", timeout=30) as response:
            print(f"{host} answered with status {response.status}")
    except urllib.error.HTTPError as error:
        print(f"{host} answered with status {error.code}")
    except OSError as error:
        print(f"{host} cannot be reached: {error}")
`;

const [domain = "example.com"] = Deno.args;

const workspace = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(workspace, { recursive: true }));
await using executor = await CodeExecutor.start({
  workspace,
  sandbox: { config: { network: { allowedDomains: [domain] } } },
  kernelEnv: { ALLOWED: domain },
});
console.log((await executor.execute(FETCH, { timeoutMs: 60_000 })).text);
