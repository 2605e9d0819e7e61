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
