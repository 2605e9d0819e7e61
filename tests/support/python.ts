import { inspectInterpreter, type Interpreter } from "../../src/python/interpreter.ts";
import { KERNEL_MODULES, readMarker } from "../../src/python/managed.ts";

/**
 * The Python that tests run kernels with.
 *
 * @returns The path in `IPYBOX_PYTHON`.
 */
export function testPython(): string {
  const python = Deno.env.get("IPYBOX_PYTHON");
  if (python === undefined || python === "") {
    throw new Error(
      "These tests need IPYBOX_PYTHON: the path of a Python that has jupyter_kernel_gateway and " +
        "ipykernel; `deno task test` sets it",
    );
  }
  return python;
}

/** What is known of that Python: a managed one was inspected when it was built, which takes seconds. */
export async function testInterpreter(): Promise<Interpreter> {
  const marker = `${testPython().replace(/-[^/]+\/bin\/python$/, "")}.json`;
  return await readMarker(marker) ?? await inspectInterpreter(testPython(), KERNEL_MODULES);
}
