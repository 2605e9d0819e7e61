import { assertEquals, assertMatch, assertNotMatch, assertThrows } from "@std/assert";
import { ConfigError } from "../base/errors.ts";
import { containerCommand, type PlaceCommand } from "./place_command.ts";

function placeCommandOf(protectedPaths: ReadonlyMap<string, string> = new Map()): PlaceCommand {
  return containerCommand({ type: "docker" }, {
    id: "one",
    workspace: "/ws",
    protectedPaths,
    owner: { uid: 1, gid: 1 },
    memoryBytes: null,
    processes: null,
    rootless: false,
    isDurable: false,
  });
}

/** The mounts of the workspace in a container: the target of each, and whether it is read-only. */
function mountsOf(...paths: readonly string[]): string[] {
  const args = placeCommandOf(new Map(paths.map((path) => [path, path]))).command(["python"]);
  return args.filter((_, i) => args[i - 1] === "--mount").map((mount) => {
    const target = /target=([^,]*)/.exec(mount)?.[1] ?? "";
    return mount.includes("readonly") ? `${target} (ro)` : target;
  });
}

Deno.test("No folder becomes writable in one that is read-only", () => {
  assertEquals(
    mountsOf("/ws/a/venv", "/ws/a/venv/lib/x/.env", "/ws/b/.env"),
    [
      "/workspace",
      "/workspace/a",
      "/workspace/b",
      "/workspace/a/venv (ro)",
      "/workspace/a/venv/lib/x/.env (ro)",
      "/workspace/b/.env (ro)",
    ],
  );
});

Deno.test("A path that engines read differently is refused by its name", () => {
  assertThrows(
    () => mountsOf("/ws/a\r\nb/.env"),
    ConfigError,
    '"/ws/a\\r\\nb/.env"',
  );
});

Deno.test("An engine's message that a container is gone, or about to be, is understood", () => {
  const { gone = "" } = placeCommandOf();
  for (
    const text of [
      "Error response from daemon: No such container: one",
      "Error response from daemon: removal of container one is already in progress",
      "Error response from daemon: Container one is not running",
      'Error: no container with name or ID "one" found: no such container',
    ]
  ) assertMatch(text, new RegExp(gone));
  assertNotMatch("Cannot connect to the Docker daemon", new RegExp(gone));
});
