// deno-lint-ignore-file no-console -- a script talks to whoever started it
/**
 * Python packages for a workspace: installed once, importable at once and in later sessions.
 *
 * Run it with `deno run -A examples/packages.ts`. `ipybox clean` removes the packages of workspaces that
 * are gone.
 *
 * @module
 */
import { CodeExecutor } from "@ipybox/ipybox";

const ACTION = `
import humanize

print(humanize.naturalsize(123_456_789))
`;

const workspace = await Deno.makeTempDir();
await using cleanUp = new AsyncDisposableStack();
cleanUp.defer(() => Deno.remove(workspace, { recursive: true }));
await using executor = await CodeExecutor.start({ workspace });

// The installer runs in a sandbox that reaches only the package index; code itself has no network.
const summary = await executor.installPackages("humanize>=4", {
  onLine: (line) => console.error(line),
});
console.log(summary);
console.log((await executor.execute(ACTION)).text);

// What satisfies a requirement already is not installed again.
console.log(await executor.installPackages("humanize"));
