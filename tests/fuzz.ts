/**
 * `deno task fuzz [SECONDS]`: feeds each parser of hostile input for so many seconds.
 *
 * @module
 */
const [seconds = "30"] = Deno.args;
const { code } = await new Deno.Command(Deno.execPath(), {
  args: ["test", "-A", "tests/security/fuzz_test.ts"],
  cwd: new URL("../", import.meta.url),
  env: { IPYBOX_FUZZ_SECONDS: seconds },
}).spawn().status;
Deno.exitCode = code;
