import { assertEquals } from "@std/assert";
import { seenMounts } from "./seen_mounts.ts";

const HERE = [
  "19 20 0:4 / /proc rw - proc proc rw",
  "20 1 8:1 / / rw - ext4 /dev/sda1 rw",
  "21 20 0:5 / /dev rw - devtmpfs udev rw",
  "22 20 8:2 /volumes/home /home rw - ext4 /dev/sda2 rw",
  "23 22 8:3 / /home/me/my\\040disk rw - ext4 /dev/sda3 rw",
  "",
].join("\n");

Deno.test("seenMounts() says what of which device is seen at each place", () => {
  const mount = (source: string, target: string) => ({ source, target });
  assertEquals(
    seenMounts([
      mount("/home/me/ws", "/workspace"),
      mount("/home/me/ws/a b", "/workspace/a b"),
      mount("/home/me/my disk", "/workspace/disk"),
      mount("/home/me/my disk/x", "/workspace/x"),
      mount("/dev/null", "/workspace/.env"),
      mount("/srv/homework", "/workspace/h"),
    ], HERE),
    [
      ["/workspace", "8:2/ext4", "/volumes/home/me/ws"],
      ["/workspace/a\\040b", "8:2/ext4", "/volumes/home/me/ws/a\\040b"],
      ["/workspace/disk", "8:3/ext4", "/"],
      ["/workspace/x", "8:3/ext4", "/x"],
      ["/workspace/.env", "0:5/devtmpfs", "/null"],
      ["/workspace/h", "8:1/ext4", "/srv/homework"],
    ],
  );
});
