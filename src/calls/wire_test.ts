import { assertThrows } from "@std/assert";
import { parseApproveRequest, parseCatalogRequest, parseRunRequest } from "./wire.ts";

const names = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, ""]));
const bytes = (body: unknown) => new TextEncoder().encode(JSON.stringify(body));

Deno.test("code cannot have the host look at many names", () => {
  const params = { name: "p", arguments: names(201) };
  const catalog = bytes({ server: "s", method: "prompts/get", params });
  assertThrows(() => parseCatalogRequest(catalog), TypeError, "more than 200 names");
  const approve = bytes({ kind: "shell", arguments: names(201) });
  assertThrows(() => parseApproveRequest(approve), TypeError, "more than 200 names");
  const run = bytes({ server: "s", tool: "t", arguments: names(100_001) });
  assertThrows(() => parseRunRequest(run), TypeError, "more than 100000 names");
  parseRunRequest(bytes({ server: "s", tool: "t", arguments: names(90_000) }));
});
