import { assertEquals } from "@std/assert";
import { z } from "zod";
import { forClients, withSession } from "./tool_input.ts";

Deno.test("A tool's arguments are only made once a client asks for them or gives some", async () => {
  for (const declare of [forClients, withSession]) {
    let made = 0;
    const { "~standard": declared } = declare(() => {
      made++;
      return z.object({ count: z.number().int().max(9).default(1) });
    });

    const before = made;
    const result = await declared.validate({ count: "3" });
    const { properties } = declared.jsonSchema.input({ target: "draft-2020-12" });

    assertEquals([before, made], [0, 1]);
    assertEquals(result, { value: { count: 3 } });
    const { count }: { count?: unknown } = Object.assign({}, properties);
    assertEquals(count, { type: "integer", default: 1 });
  }
});
