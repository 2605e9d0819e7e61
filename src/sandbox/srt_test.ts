import { assertEquals } from "@std/assert";
import manifest from "../../deno.json" with { type: "json" };
import { SRT_PACKAGE, SRT_VERSION } from "./srt.ts";

Deno.test("the pinned version is the one that the import map names", () => {
  assertEquals(manifest.imports[SRT_PACKAGE], `npm:${SRT_PACKAGE}@${SRT_VERSION}`);
});
