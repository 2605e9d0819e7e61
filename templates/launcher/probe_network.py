"""Looks for hosts that answer, from a place that can have network interfaces.

The launcher runs it before any code is there. It tries the addresses that the host names, those
that this machine itself knows, and those that others on the same network are likely to have, all at
once. A network that lets nothing through takes as long as one attempt.
"""

import errno
import fcntl
import selectors
import socket
import struct
import time

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

# The time for one attempt to reach somebody, and for the policies of a network to take effect.
REACH_SECONDS = 1.0
POLICY_SECONDS = 5.0

# A question to a name server for the root's own servers.
QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01"
DNS = 53

ROUTER_PORTS = (22, DNS, 80, 443, 10250)
NEIGHBOUR_PORT = 443  # any will do: a refusal is an answer

# The numbers of a network that are assigned first, and how many around one's own to try.
FIRST_NUMBERS = range(1, 9)
NUMBERS_AROUND = 16

SIOCGIFADDR = 0x8915
IP_RECVERR, IPV6_RECVERR = 11, 25


def reached_of(addresses, interfaces):
    """Returns the addresses that answer, among these and those that are found here."""
    if not interfaces:
        return []
    own = own_addresses(interfaces)
    addresses = {(host, port) for host, port in addresses}
    addresses |= {(host, DNS) for host in name_servers()}
    addresses |= {(host, port) for host in routers() for port in ROUTER_PORTS}
    addresses |= {(host, NEIGHBOUR_PORT) for host in neighbours(own)}
    deadline = time.monotonic() + POLICY_SECONDS
    while (reached := reach(sorted(addresses), own)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return reached


def reach(addresses, own):
    """Connects to all of them at once; name servers are also asked over UDP."""
    found = set()
    with selectors.DefaultSelector() as waiting:

        def judge(sock, address, failed):
            with sock:
                if sock.type == socket.SOCK_DGRAM:
                    answered = not failed and has_answer(sock)
                else:
                    answered = not failed or (address[0] not in own and is_refusal(sock, failed))
            if answered:
                found.add(address)

        for address in addresses:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                if kind == socket.SOCK_DGRAM and address[1] != DNS:
                    continue
                try:
                    sock = socket.socket(family_of(address[0]), kind)
                except OSError:
                    continue  # there is no such family here
                failed = begin(sock, address)
                if failed in (0, errno.EINPROGRESS):
                    waiting.register(sock, WRITE if kind == socket.SOCK_STREAM else READ, address)
                else:
                    judge(sock, address, failed)
        deadline = time.monotonic() + REACH_SECONDS
        while waiting.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in waiting.select(left):
                sock = waiting.unregister(key.fileobj).fileobj
                judge(sock, key.data, sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        for key in list(waiting.get_map().values()):
            key.fileobj.close()
    return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in sorted(found)]


def family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def begin(sock, address):
    """Begins to connect, and returns the error."""
    sock.setblocking(False)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
    host, _, link = address[0].partition("%")
    try:
        scope = (0, socket.if_nametoindex(link)) if link else ()
        failed = sock.connect_ex((host, address[1], *scope))
        if sock.type == socket.SOCK_DGRAM and not failed:
            sock.send(QUESTION)
    except OSError as error:
        failed = error.errno
    return failed


def is_refusal(sock, failed):
    """Whether the machine at the address has refused a connection, and not a firewall on the way to
    it."""
    if failed != errno.ECONNREFUSED:
        return False
    try:
        sock.recvmsg(1, 0, socket.MSG_ERRQUEUE)
        return False  # it came as an ICMP error, as from firewalls
    except BlockingIOError:
        return True


def has_answer(sock):
    try:
        return bool(sock.recv(512))
    except OSError:
        return False


def name_servers():
    """The addresses of name servers, without those on this machine itself."""
    try:
        with open("/etc/resolv.conf") as file:
            words = [line.split() for line in file]
    except OSError:
        return []
    named = [line[1] for line in words if len(line) > 1 and line[0] == "nameserver"]
    return [host for host in named if not host.startswith("127.") and host != "::1"]


def routers():
    """The addresses of the gateways to other networks."""
    found = set()
    for _, _, gateway, *_ in table("/proc/net/route")[1:]:
        if int(gateway, 16):
            found.add(socket.inet_ntoa(struct.pack("=I", int(gateway, 16))))
    for line in table("/proc/net/ipv6_route"):
        gateway = bytes.fromhex(line[4])
        if any(gateway):
            host = socket.inet_ntop(socket.AF_INET6, gateway)
            found.add(f"{host}%{line[-1]}" if host.startswith("fe80:") else host)
    return found


def own_addresses(interfaces):
    """The addresses of this machine in networks."""
    found = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for name in interfaces:
            try:
                asked = fcntl.ioctl(sock, SIOCGIFADDR, struct.pack("40s", name.encode()))
            except OSError:
                continue  # it has none
            found.add(socket.inet_ntoa(asked[20:24]))
    for address, _, _, scope, *_ in table("/proc/net/if_inet6"):
        if scope == "00":  # neither loopback nor link-local
            found.add(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(address)))
    return found


def neighbours(own):
    """Addresses that others on the same network are likely to have, such as other pods."""
    found = set()
    for host in own:
        family = family_of(host)
        *network, number = socket.inet_pton(family, host)
        around = range(max(number - NUMBERS_AROUND, 1), min(number + NUMBERS_AROUND, 254) + 1)
        for other in {*FIRST_NUMBERS, *around}:
            found.add(socket.inet_ntop(family, bytes([*network, other])))
    return found - own


def table(path):
    """The words of the lines of a file in which the system describes networks."""
    try:
        with open(path) as file:
            return [line.split() for line in file]
    except FileNotFoundError:
        return []  # there is no such family here
