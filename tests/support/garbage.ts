import v8 from "node:v8";
import vm from "node:vm";

/** Collects garbage, as the engine does now and then. */
export async function collectGarbage(): Promise<void> {
  v8.setFlagsFromString("--expose-gc");
  const gc: () => void = vm.runInNewContext("gc");
  for (let round = 0; round < 3; round++) {
    gc();
    await new Promise((resolve) => setTimeout(resolve)); // what a turn of the loop still holds
  }
}
