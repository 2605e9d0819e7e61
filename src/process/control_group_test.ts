import { assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { testIf } from "../../tests/support/skip.ts";
import { ControlGroup } from "./control_group.ts";

/** The folder in which this process may make groups. A process joins one, and ends. */
async function useGroup(): Promise<string | undefined> {
  const child = new Deno.Command("sleep", { args: ["60"] }).spawn();
  const group = await ControlGroup.take(child.pid, { memoryBytes: null, processes: 1000 });
  child.kill("SIGKILL");
  await child.status;
  await group?.[Symbol.asyncDispose]();
  return group?.folders.map(dirname)[0];
}

const parent = Deno.build.os === "linux" ? await useGroup() : undefined;

testIf(parent !== undefined, "this user cannot make control groups", {
  name: "groups of killed processes are removed by the next one, but none that may be starting",
  fn: async () => {
    const old = `${parent}/ipybox-${crypto.randomUUID()}`;
    const young = `${parent}/ipybox-${crypto.randomUUID()}`;
    for (const path of [old, young]) await Deno.mkdir(path);
    await Deno.utime(old, new Date(0), new Date(0));
    await useGroup();
    const exists = (path: string) => Deno.stat(path).then(() => true, () => false);
    assertEquals([await exists(old), await exists(young)], [false, true]);
    await Deno.remove(young);
  },
});
