/** What a program is told of packages that its code lacks. */
import { assert, assertStringIncludes } from "@std/assert";
import { TestExecutor } from "../support/executor.ts";
import { rejection } from "../support/wait.ts";

/** What code sees of pip's and uv's settings. */
const RETRIES =
  "import os; print(os.environ.get('PIP_RETRIES'), os.environ.get('UV_HTTP_RETRIES'))";

Deno.test("A package that code lacks is installed by a method, which is named", async () => {
  await using test = await TestExecutor.start();
  const { executor } = test;
  const error = String(await rejection(executor.execute("import no_such_module")));
  assertStringIncludes(
    error,
    '\n[ipybox] To install it: executor.installPackages(["no_such_module"])',
  );

  const { text } = await executor.execute("!python -m pip install no-such-package other");
  const hint = '[ipybox] To install them: executor.installPackages(["no-such-package", "other"])';
  assertStringIncludes(text ?? "", hint);
  assertStringIncludes((await executor.execute(RETRIES)).text ?? "", "0 0");
});

Deno.test("Without a packages folder, no hint says that one can be filled", async () => {
  await using test = await TestExecutor.start({ packages: false });
  const error = String(await rejection(test.executor.execute("import no_such_module")));
  assert(!error.includes("[ipybox]"), error);
});

Deno.test("Where code may reach hosts, pip and uv try as often as they usually do", async () => {
  const sandbox = { config: { network: { allowedDomains: ["example.com"] } } };
  await using test = await TestExecutor.start({ sandbox });
  assertStringIncludes((await test.executor.execute(RETRIES)).text ?? "", "None None");
});
