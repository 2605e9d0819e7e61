/** What a place with network interfaces is judged by: the launcher's attempts to reach somebody. */
import { assertEquals } from "@std/assert";
import { testIf } from "../support/skip.ts";
import { testPython } from "../support/python.ts";

const launcher = new URL("../../templates/launcher", import.meta.url).pathname;

/** A network with an interface whose router does not exist; the address of the machine itself answers. */
const TRIAL = `
import socket, subprocess, sys, threading
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import launcher
for command in (
    "link set lo up", "link add d0 type veth peer name d1", "link set d1 up", "link set d0 up",
    "addr add 10.9.9.2/24 dev d0", "route add default via 10.9.9.1",
):
    subprocess.run(["ip", *command.split()], check=True)
launcher.name_servers = lambda: ["10.9.9.3"]
closed = [("1.1.1.1", 443), ("8.8.8.8", 53), ("fd00:ec2::254", 80), ("10.9.9.2", 10250)]
print(launcher.routers(), launcher.reached_of(closed))
listener = socket.create_server(("10.9.9.2", 10250))
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.9.9.2", 53))
def serve():
    while True:
        question, address = server.recvfrom(512)
        server.sendto(question, address)
threading.Thread(target=serve, daemon=True).start()
launcher.POLICY_SECONDS = 0
print(launcher.reached_of([*closed, ("10.9.9.2", 53)]))
`;

testIf(Deno.uid() === 0, "only root can make a network", {
  name: "a place with interfaces reports who answers, by a connection or as a name server",
  fn: async () => {
    const { stdout, stderr } = await new Deno.Command("unshare", {
      args: ["--net", testPython(), "-I", "-c", TRIAL, launcher],
    }).output();
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    assertEquals(text, "{'10.9.9.1'} []\n['10.9.9.2:53', '10.9.9.2:10250']\n");
  },
});
