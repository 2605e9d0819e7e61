import { testPython } from "./python.ts";

/** Runs Python code from its first output, with which it says that it has begun, until it is disposed of. */
export async function attack(args: readonly string[]): Promise<AsyncDisposable> {
  const process = new Deno.Command(testPython(), { args: [...args], stdout: "piped" }).spawn();
  const output = process.stdout.getReader();
  if ((await output.read()).done) throw new Error(`It did not begin: ${args.join(" ")}`);
  return {
    async [Symbol.asyncDispose]() {
      process.kill("SIGKILL");
      await output.cancel();
      await process.status;
    },
  };
}

/** Has a folder and a link to another one change places all the time, until it is disposed of. */
export async function swapFolder(folder: string, target: string): Promise<AsyncDisposable> {
  const swapper = new URL("../fixtures/swap_folder.py", import.meta.url).pathname;
  return await attack([swapper, folder, target]);
}
