/** What a place with network interfaces is judged by: the launcher's attempts to reach somebody. */
import { assertEquals } from "@std/assert";
import { testIf } from "../support/skip.ts";
import { testPython } from "../support/python.ts";

const launcher = new URL("../../templates/launcher", import.meta.url).pathname;

/** A network with an interface whose router does not exist; the address of the machine itself answers. */
const TRIAL = `
import socket, subprocess, sys, threading, time
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import probe_network
def ip(*commands):
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)
def reached():
    return probe_network.reached_of(closed, ["d0", "d1"])
ip(
    "link set lo up", "link add d0 type veth peer name d1", "link set d1 up", "link set d0 up",
    "addr add 10.9.9.2/24 dev d0", "addr add fd09::2/64 dev d0 nodad",
    "route add default via 10.9.9.1", "-6 route add default via fe80::1 dev d0",
)
probe_network.name_servers = lambda: ["10.9.9.3"]
closed = [("1.1.1.1", 443), ("8.8.8.8", 53), ("fd00:ec2::254", 80), ("10.9.9.2", 10250)]
print(sorted(probe_network.routers()), sorted(probe_network.own_addresses(["d0", "d1"])), reached())
listener = socket.create_server(("10.9.9.2", 10250))
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("10.9.9.2", 53))
def serve():
    while True:
        question, address = server.recvfrom(512)
        server.sendto(question, address)
threading.Thread(target=serve, daemon=True).start()
probe_network.POLICY_SECONDS = 0
closed.append(("10.9.9.2", 53))
print(reached())
`;

/**
 * Other machines on the network, which refuse connections, as those of two numbers have somebody say
 * for them. This machine plays them.
 */
const NEIGHBOURS = `
own = probe_network.own_addresses(["d0"])
probe_network.own_addresses = lambda _: own
closed.clear()
ip("addr add 10.9.9.5/24 dev d0", "addr add 10.9.9.7/24 dev d0")
ip(*(f"addr add fd09::{number}/64 dev d0 nodad" for number in (5, 7)))
added = {socket.inet_pton(socket.AF_INET6, f"fd09::{number}").hex() for number in (5, 7)}
while not added <= {line[0] for line in probe_network.table("/proc/net/ipv6_route")}:
    time.sleep(0.01)  # the system adds their routes later
subprocess.run(["nft", "--file", "-"], input="""
table inet walls {
  chain out {
    type filter hook output priority 0
    ip daddr 10.9.9.7 reject with icmp port-unreachable
    ip6 daddr fd09::7 reject with icmpv6 port-unreachable
  }
}
""", text=True, check=True)
print(reached())
`;

/** Runs a trial in a network of its own. */
async function printed(trial: string): Promise<string[]> {
  const { stdout, stderr } = await new Deno.Command("unshare", {
    args: ["--net", testPython(), "-I", "-c", trial, launcher],
  }).output();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  return text.trim().split("\n");
}

const test = (name: string, fn: () => Promise<void>) =>
  testIf(Deno.uid() === 0, "only root can make a network", { name, fn });

test("a place with interfaces reports who answers, by a connection or as a name server", async () => {
  assertEquals(await printed(TRIAL), [
    "['10.9.9.1', 'fe80::1%d0'] ['10.9.9.2', 'fd09::2'] []",
    "['10.9.9.2:53', '10.9.9.2:10250']",
  ]);
});

const noNft = await Deno.stat("/usr/sbin/nft").then(() => false, () => true);

testIf(Deno.uid() === 0 && !noNft, "only root can make a network, and nft its walls", {
  name: "a neighbour that refuses a connection is there; a wall that refuses for it is not",
  fn: async () => {
    const [, , neighbours] = await printed(TRIAL + NEIGHBOURS);
    assertEquals(neighbours, "['10.9.9.5:443', '[fd09::5]:443']");
  },
});
