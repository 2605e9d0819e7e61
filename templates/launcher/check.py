"""Checks from inside that a sandbox holds, before any program but ipybox's runs in it.

The launcher of kernels reports the result to the host. For other programs, this is the first one inside:
it becomes the program if everything holds.

The expected mounts come from `wall.py`, which made the sandbox, and from the host: mounts are made by path,
and code of another session could have put a link in the way.
"""

import ctypes
import errno
import json
import os
import resource
import socket
import stat
import struct
import sys

# Files through which root could change the machine from any namespace, and files with its memory.
OF_THE_MACHINE = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity",
    "/proc/mtrr",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
)
OF_ITS_MEMORY = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/kallsyms")

# Where programs of the host usually listen; the host adds those that its environment names.
SOCKETS = (
    "/run/docker.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/notify",
    "/run/systemd/journal/socket",
    "/run/postgresql/.s.PGSQL.5432",
    "/run/user/{uid}/bus",
    "/run/user/{uid}/wayland-0",
    "/run/user/{uid}/systemd/private",
    "/run/user/{uid}/gnupg/S.gpg-agent",
    "/tmp/.X11-unix/X0",
    "/tmp/.s.PGSQL.5432",
    "\0/tmp/.X11-unix/X0",
)

KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_GET_KEYRING_ID = 0
KEY_SPEC_SESSION_KEYRING = -3

LANDLOCK_CREATE_RULESET, LANDLOCK_ADD_RULE, LANDLOCK_RESTRICT_SELF = 444, 445, 446
REFER, RESOLVE_UNIX = 1 << 13, 1 << 16


def system_call(number, *arguments):
    return ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)


def name_of(error):
    return errno.errorcode.get(error, str(error))


def wall_of_this():
    """The view that `wall.py` expects, if it made this sandbox."""
    fd = os.environ.pop("IPYBOX_WALL", None)
    if fd is None:
        return None
    with open(int(fd), encoding="utf-8", errors="surrogateescape") as file:
        return json.load(file)


def facts():
    """The facts about this process that the host needs, even without a sandbox."""
    report = {"pid": os.getpid(), "uid": os.getuid(), "platform": sys.platform, "failures": []}
    if sys.platform == "linux":
        report["landlock"] = system_call(LANDLOCK_CREATE_RULESET, None, 0, 1)  # its version
    return report


def check(probe, wall):
    """Tries what the sandbox must prevent, and returns a report for the host.

    `probe` names files, a port, a process and sockets of the host, and describes the place.
    """
    report = facts()
    failures = [f"{path} can be opened" for path in probe["files"] if is_open(path)]
    if sys.platform == "linux":
        failures += [*of_this_process(), *of_the_host(probe, wall), *of_the_network(probe)]
    elif probe.get("elsewhere"):
        failures.append(f"it is {sys.platform}, not Linux")
    if "workspace" in probe:
        path, found = probe["workspace"]
        if identity_of(path) != found:
            failures.append("the workspace was replaced while it was mounted: try again")
    if wall is not None:
        failures += of_the_mounts(wall)
    report["failures"] = [failure[:1000] for failure in failures[:20]]
    return report


def of_this_process():
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file if ":" in line)
    if status.get("Seccomp", "").strip() != "2":
        yield "no system call filter is active"
    if status.get("NoNewPrivs", "").strip() != "1":
        yield "privileges can be gained (no_new_privs is off)"
    for name, value in status.items():
        if name.startswith("Cap") and int(value, 16):
            yield f"it has capabilities ({name})"
    if not refuses_keys():
        yield "the kernel's keys can be requested"
    if not refuses_setuid():
        yield "setuid files can be created"


def of_the_host(probe, wall):
    for path in OF_THE_MACHINE:
        if can_open(path, os.O_WRONLY):
            yield f"{path} of the machine can be written"
    for path in OF_ITS_MEMORY:
        # Elsewhere, this one shows symbols without their addresses.
        if can_open(path, os.O_RDONLY) and not (
            probe.get("elsewhere") and path.endswith("kallsyms")
        ):
            yield f"{path} of the machine can be read"
    if wall is not None:
        for kind, outside in wall["namespaces"].items():
            if os.readlink(f"/proc/self/ns/{kind}") == outside:
                yield f"it shares the {kind} namespace with the host"
    elif not probe.get("elsewhere"):
        yield "it was not made by ipybox"
    # A small id may also belong to a process inside.
    if not probe.get("ambiguous") and is_process(probe["process"]):
        yield "processes of the host are visible"
    shown = [path for path, *_ in wall["seen"]] if wall else []
    uid = wall["user"] if wall else os.getuid()  # outside
    for path in [name.format(uid=uid) for name in SOCKETS] + probe.get("sockets", []):
        named = any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in shown)
        if not named and is_socket(path):
            yield f"the host's socket {path!r} can be reached"


def of_the_network(probe):
    port = probe.get("port")
    if port is not None and connects(socket.AF_INET, ("127.0.0.1", port)) == "open":
        yield "a port of the host can be reached"
    if not probe.get("elsewhere"):
        return
    with open("/proc/net/dev") as file:
        names = [line.split(":")[0].strip() for line in file if ":" in line]
    others = [name for name in names if name != "lo"]
    if not probe.get("interfaces"):
        if others:
            yield f"there is a network: {', '.join(others)}"
    elif "addresses" in probe:
        import runpy  # only places with networks need it

        program = runpy.run_path(f"{os.path.dirname(os.path.abspath(__file__))}/probe_network.py")
        if reached := program["reached_of"](probe["addresses"], others):
            yield f"the network is open: {', '.join(reached)}"
    else:
        yield "the network is open: not looked at"


def of_the_mounts(wall):
    """Compares the file at each path with the one that was mounted there."""
    for path, device, inode in [*wall["seen"], *wall["identities"]]:
        if identity_of(path) != [device, inode]:
            yield f"{path} shows something else"
    for path in wall["kept"]:
        if os.path.exists(path) and not os.statvfs(path).f_flag & os.ST_RDONLY:
            yield f"{path} can be written"
    for path in wall["masked"]:
        if not is_masked(path):
            yield f"{path} is shown"


def is_masked(path):
    """Whether a mount hides exactly this path, with no link on the way."""
    *folders, name = path.strip("/").split("/")
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open("/", flags)
    try:
        for folder in folders:
            below = os.open(folder, flags, dir_fd=at)
            os.close(at)
            at = below
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 3)
        # A separate mount, which can contain only paths that are shown again.
        return found.st_dev != os.fstat(at).st_dev and bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(at)


def identity_of(path):
    """The identity of the file or folder at a path; `None` if none can be seen."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return [found.st_dev, found.st_ino]


def refuses_keys():
    call = KEYCTL.get(os.uname().machine)
    if call is None or system_call(call, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0) >= 0:
        return False
    return ctypes.get_errno() == errno.EPERM


def refuses_setuid():
    """Requests setuid bits in ways that create no file."""
    for request in (
        lambda: os.fchmod(-1, 0o4000),
        lambda: os.open("", os.O_CREAT | os.O_WRONLY, 0o2000),
    ):
        try:
            request()
            return False
        except OSError as error:
            if error.errno != errno.EPERM:
                return False
    return True


def is_open(path):
    """Whether a file can be opened at all, even an empty one."""
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            os.close(os.open(path, flags | os.O_CLOEXEC))
            return True
        except OSError:
            pass  # it cannot
    return False


def can_open(path, flags):
    """Whether a file can be opened, for writing, or for reading content that is not empty."""
    try:
        fd = os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return flags == os.O_WRONLY or bool(os.read(fd, 1))
    except OSError:
        return True
    finally:
        os.close(fd)


def is_process(pid):
    try:
        os.kill(pid, 0)
        return True
    except OSError as error:
        return error.errno == errno.EPERM


def connects(family, address):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.settimeout(1)
            sock.connect(address)
        return "open"
    except OSError as error:
        return name_of(error.errno or 0)


def is_socket(path):
    """Whether there is a socket, regardless of its permissions."""
    nothing = ("ENOENT", "ENOTDIR", "ECONNREFUSED", "EPERM")
    outcome = connects(socket.AF_UNIX, path)
    if outcome == "EACCES":  # of the socket, or of a folder on the way that cannot be entered
        try:
            os.lstat(path)
        except OSError:
            return False
    return outcome not in nothing


def confine_sockets():
    """Limits this process, and all that it starts, to Unix sockets that one of them made.

    Linux supports that since 7.1. Before, code can connect to any socket in a folder that it sees.
    """
    if sys.platform != "linux" or system_call(LANDLOCK_CREATE_RULESET, None, 0, 1) < 9:
        return
    attributes = struct.pack("QQQ", REFER | RESOLVE_UNIX, 0, 0)
    ruleset = system_call(LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    # By default, every domain forbids moving files to other folders.
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    system_call(LANDLOCK_ADD_RULE, ruleset, 1, struct.pack("=Qi", REFER, root), 0)
    if system_call(LANDLOCK_RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "Landlock does not work")
    os.close(root)
    os.close(ruleset)


def close_inherited(*kept):
    """Closes only the open ones: in a container, a billion numbers may be possible."""
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that listed the folder, already closed


def limit(which, value):
    """Lowers a resource limit, unless it is already lower."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def main():
    """Becomes a program, if the sandbox holds. Arguments: `{probe, cwd, limits}`, the program, and
    its arguments."""
    order = json.loads(sys.argv[1])
    if failures := check(order["probe"], wall_of_this())["failures"]:
        sys.exit(f"The sandbox does not hold, nothing was started: {'; '.join(failures)}")
    close_inherited()
    os.chdir(order["cwd"])
    if os.getcwd() != order["cwd"]:  # code may have replaced the folder with a link
        sys.exit(f"{order['cwd']} leads elsewhere, nothing was started")
    confine_sockets()
    for name, value in order["limits"].items():
        limit(getattr(resource, name), value)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error.strerror}")


if __name__ == "__main__":
    main()
