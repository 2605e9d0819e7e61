import { assertEquals, assertMatch } from "@std/assert";
import { messageOf } from "./message_of.ts";

Deno.test("messageOf() says what helps with a certificate of a company", () => {
  const error = new TypeError("client error (Connect): invalid peer certificate: UnknownIssuer");
  assertMatch(messageOf(error), /UnknownIssuer\. If this machine trusts .* DENO_TLS_CA_STORE=/);
  assertEquals(messageOf(new Error("another")), "another");
  assertEquals(messageOf("thrown"), "thrown");
});
