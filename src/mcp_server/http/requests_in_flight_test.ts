import { assertThrows } from "@std/assert";
import { Refused } from "../../calls/http_checks.ts";
import { RequestsInFlight } from "./requests_in_flight.ts";

const MIB = 2 ** 20;

Deno.test("RequestsInFlight counts a token's requests and their MiB until they are answered", () => {
  const inFlight = new RequestsInFlight((owner) => owner === "alice" ? 1 : 2);
  const refused = (owner: string, length = 0) =>
    assertThrows(() => inFlight.take(owner, length), Refused, "reached its limit of").message;

  const large = inFlight.take("alice", 16 * MIB);
  const small = Array.from({ length: 47 }, () => inFlight.take("alice", MIB - 1));
  refused("alice");
  for (let count = 0; count < 128; count++) inFlight.take("bob", 0);
  refused("bob");

  large[Symbol.dispose]();
  large[Symbol.dispose](); // gives nothing back twice
  refused("alice", 17 * MIB);
  inFlight.take("alice", 16 * MIB);
  refused("alice");
  small[0]?.[Symbol.dispose]();
  inFlight.take("alice", 0);
});
