import { assert, assertArrayIncludes, assertEquals, assertThrows } from "@std/assert";
import { type PolicyInput, sandboxSettings } from "./settings.ts";

const input: PolicyInput = {
  writable: ["/tmp/s/session", "/home/me/work"],
  readOnly: ["/tmp/s/session/launcher"],
  hostPrivate: "/tmp/s/host",
  base: "/home/me/work",
  protectedPaths: {
    unreadable: ["/home/me/work/.ipybox"],
    readOnly: ["/home/me/work/mcptools"],
  },
  readable: ["/opt/python"],
  home: "/home/me",
};

Deno.test("sandboxSettings() closes everything and opens what is needed", () => {
  const { network, filesystem } = sandboxSettings(input);
  assertEquals([network.allowedDomains, network.strictAllowlist], [[], true]);
  assertEquals(filesystem.denyRead, ["/", "/tmp/s/host", "/home/me/work/.ipybox"]);
  assertArrayIncludes(filesystem.allowRead, ["/usr", "/opt/python", "/home/me/work"]);
  assertEquals(filesystem.allowWrite, ["/tmp/s/session", "/home/me/work"]);
  assertEquals(filesystem.denyWrite, [
    "/tmp/s/session/launcher",
    "/home/me/work/.ipybox",
    "/home/me/work/mcptools",
  ]);
  const broad = ["/", "/home", "/home/me", "/etc", "/root", "/tmp", "/tmp/s", "/var", "/proc"];
  for (const path of broad) assert(!filesystem.allowRead.includes(path), path);
});

Deno.test("sandboxSettings() adds what the user wants to what there is", () => {
  const { network, filesystem } = sandboxSettings({
    ...input,
    config: {
      network: { allowedDomains: ["example.org"] },
      filesystem: {
        allowRead: ["~/data", "./in"],
        allowWrite: ["/scratch"],
        denyRead: ["**/*.key"],
      },
    },
  });
  assertEquals(network.allowedDomains, ["example.org"]);
  assertArrayIncludes(filesystem.allowRead, [
    "/usr",
    "/home/me/data",
    "/home/me/work/in",
    "/tmp/s/host/proxy",
  ]);
  assertArrayIncludes(filesystem.allowWrite, ["/home/me/work", "/scratch"]);
  assertArrayIncludes(filesystem.denyRead, ["/", "/home/me/work/**/*.key"]);
});

Deno.test("sandboxSettings() takes a path of ours for a name, whatever is in it", () => {
  const { filesystem } = sandboxSettings({ ...input, writable: ["/w/[a]*"] });
  assertEquals(filesystem.allowWrite.at(-1), { path: "/w/[a]*", literal: true });
});

Deno.test("sandboxSettings() does not guess what ~ is", () => {
  const { home: _, ...homeless } = input;
  const config = { filesystem: { allowRead: ["~/data"] } };
  assertThrows(() => sandboxSettings({ ...homeless, config }), TypeError, "~/data");
});
