import { assertEquals } from "@std/assert";
import { FakeTime } from "../../tests/support/fake_time.ts";
import { silentLogger } from "../base/log.ts";
import { SpareKernel } from "./keeper.ts";

for (const spare of [true, false]) {
  Deno.test(`SpareKernel with spare: ${spare} starts ${spare ? "one, and after the first" : "none"}`, () => {
    using time = new FakeTime();
    let started = 0;
    const start = () => {
      started++;
      return new Promise<never>(() => {});
    };
    const kernel = new SpareKernel(start, () => {}, { spare, log: silentLogger });
    kernel.prepare();
    time.advance(1);
    assertEquals(started, 0);
    time.advance(24 * 60 * 60 * 1000);
    kernel.prepare();
    time.advance(24 * 60 * 60 * 1000);
    assertEquals(started, spare ? 1 : 0);
  });
}
