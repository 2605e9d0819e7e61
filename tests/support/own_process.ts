const ROOT = new URL("../../", import.meta.url);

/**
 * What code gives in a process with other variables: those of this process are those of all tests that
 * run at the same time.
 *
 * @param code The body of a function, which imports modules of ipybox by `load(path)`.
 * @param env The variables that are different there, but not for Deno itself.
 */
export async function inOwnProcess(
  code: string,
  env: Readonly<Record<string, string>>,
): Promise<unknown> {
  const program = `const load = (path) => import(new URL(path, ${JSON.stringify(ROOT)}).href);
for (const [name, value] of Object.entries(${JSON.stringify(env)})) Deno.env.set(name, value);
const value = await (async () => { ${code} })();
await Deno.stdout.write(new TextEncoder().encode(JSON.stringify(value ?? null)));`;
  const config = new URL("deno.json", ROOT).pathname;
  const args = ["eval", "--quiet", `--config=${config}`, program];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const text = new TextDecoder();
  if (!success) throw new Error(text.decode(stderr));
  return JSON.parse(text.decode(stdout));
}
