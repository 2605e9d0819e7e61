import { assert, assertEquals } from "@std/assert";
import { asset } from "../assets/mod.ts";
import { pinnedVersions } from "./packages.ts";

Deno.test("pinnedVersions() keeps for which Python a version counts", () => {
  const requirements = [
    "# made by a tool",
    "six==1.17.0 \\",
    "    --hash=sha256:00 \\",
    "    --hash=sha256:01",
    "    # via",
    "    #   python-dateutil==1",
    "dateutil==3.0.0 ; python_full_version < '3.11' \\",
    "    --hash=sha256:02",
    "dateutil==4.0.0 ; python_full_version >= '3.11' and sys_platform == 'linux' \\",
    "    --hash=sha256:03",
  ].join("\n");
  assertEquals(
    pinnedVersions(requirements),
    "six==1.17.0\n" +
      "dateutil==3.0.0 ; python_full_version < '3.11'\n" +
      "dateutil==4.0.0 ; python_full_version >= '3.11' and sys_platform == 'linux'\n",
  );
});

Deno.test("pinnedVersions() has no package twice for the same Python", () => {
  const lines = pinnedVersions(asset("environment/requirements.txt")).trimEnd().split("\n");
  const everywhere = lines.filter((line) => !line.includes(";")).map((line) => line.split("==")[0]);
  assert(everywhere.length > 20, `${everywhere.length} lines`);
  for (const name of everywhere) {
    assertEquals(lines.filter((line) => line.startsWith(`${name}==`)).length, 1, name);
  }
});
