import { assert, assertEquals } from "@std/assert";
import { Alarm } from "./alarm.ts";

Deno.test("Alarm rings once, no earlier than the time that was set last", async () => {
  const rung = Promise.withResolvers<number>();
  let rings = 0;
  using alarm = new Alarm(() => {
    rings++;
    rung.resolve(performance.now());
  });
  alarm.set(5);
  const begin = performance.now();
  alarm.set(40);
  const stay = setTimeout(() => {}, 60_000); // this alarm keeps no program from ending
  assert(await rung.promise - begin >= 39);
  clearTimeout(stay);
  assertEquals(rings, 1);
});

Deno.test("Alarm comes forward where a time is set that is earlier", async () => {
  const rung = Promise.withResolvers<void>();
  using alarm = new Alarm(rung.resolve);
  alarm.set(60_000_000);
  alarm.set(1);
  const stay = setTimeout(() => rung.reject(new Error("It did not ring")), 30_000);
  await rung.promise;
  clearTimeout(stay);
});

Deno.test("Alarm does not ring for times that were taken back, or never come", async () => {
  using silent = new Alarm(() => assert(false, "It rang"));
  const later = Promise.withResolvers<void>();
  silent.set(1);
  silent.unset();
  silent.set(2 ** 40);
  setTimeout(later.resolve, 20); // its own timers are before this one
  await later.promise;
});

for (const keepsAlive of [true, false]) {
  Deno.test(`Alarm ${keepsAlive ? "keeps a program" : "keeps no program"} from ending`, async () => {
    const { code, stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        `import { Alarm } from ${JSON.stringify(new URL("alarm.ts", import.meta.url).href)};
         new Alarm(() => console.log("rung"), { keepsAlive: ${keepsAlive} }).set(50);`,
      ],
    }).output();
    assertEquals([code, new TextDecoder().decode(stdout)], [0, keepsAlive ? "rung\n" : ""]);
  });
}
