"""Installs ipybox's programs at a placement, and becomes the launcher there.

The host sends this program over stdin, then a line of JSON with its request. The answer is a line that
describes this machine; the host's second line has further instructions and the length of the archive
that follows. From then on, stdin and stdout belong to the launcher. In a durable session this becomes its
supervisor instead, and a last line says that it listens: see `supervisor.py`.

An image may already have the programs: a folder with exactly the files that the host would send.
"""

import compileall
import ctypes
import fcntl
import hashlib
import json
import os
import platform
import runpy
import select
import shutil
import signal
import site
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

IMAGE = "/opt/ipybox"
NEEDED = {
    "kernel_gateway": "jupyter_kernel_gateway",
    "ipykernel": "ipykernel",
    "pydantic": "pydantic",
}
MAX_LINE = 1 << 20
MAX_ARCHIVE = 1 << 24
EXIT_SECONDS = 10  # the launcher's own grace periods are shorter
REMOVE_SECONDS = 600

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER_MODE, PR_CAPBSET_DROP = 38, 22, 2, 24
PR_SET_DUMPABLE = 4
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def read(count):
    """Reads exactly this many bytes from the host: the rest is for the launcher."""
    parts = []
    while count:
        part = os.read(0, min(count, 1 << 16))
        if not part:
            sys.exit("The host went away during the start")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_line():
    line = bytearray()
    while not line.endswith(b"\n"):
        if len(line) > MAX_LINE:
            sys.exit("The host's line is too long")
        line += read(1)
    return json.loads(line)


def digest(files):
    """The hash of a set of files, by their paths and contents, as the host computes it."""
    total = hashlib.sha256()
    for path, data in sorted(files.items()):
        total.update(f"{path}\n{len(data)}\n".encode() + data)
    return total.hexdigest()


def tree(root):
    files = {}
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, root)] = file.read()
    return files


def unpack(archive, root):
    """Writes files into a new folder, and nowhere else."""
    loads = zlib.decompressobj()
    texts = json.loads(loads.decompress(archive, MAX_ARCHIVE))
    if not loads.eof:
        raise ValueError("the archive is too large or ends early")
    for path, text in texts.items():
        parts = path.split("/")
        if any(part in ("", ".", "..") or "\0" in part for part in parts):
            raise ValueError(f"the archive has a file {path!r}")
        folder = os.path.join(root, *parts[:-1])
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(os.path.join(folder, parts[-1]), "x", encoding="utf-8", newline="") as file:
            file.write(text)
    return {path: text.encode() for path, text in texts.items()}


def enter_environment():
    """Does the work of Python's `site`, but runs nothing. Other folders that the environment names
    are only searched: code may work there."""
    elsewhere = []

    def add_package(folder, name, *_):
        with open(os.path.join(folder, name), encoding="utf-8-sig", errors="ignore") as file:
            lines = [line.strip() for line in file]
        named = [os.path.abspath(os.path.join(folder, line)) for line in lines if line]
        for path in filter(os.path.exists, named):
            (sys.path if is_in(path, folder) else elsewhere).append(path)

    site.addpackage, site.execsitecustomize = add_package, lambda: None
    site.main()
    sys.path += elsewhere  # the standard library comes first


def look(wanted):
    """Describes this machine to the host."""
    try:
        with open(f"{IMAGE}/requirements.txt", "rb") as file:
            requirements = hashlib.sha256(file.read()).hexdigest()
    except OSError:
        requirements = None
    return {
        "ipybox": 1,
        "system": sys.platform,
        "machine": platform.machine(),
        "version": list(sys.version_info[:2]),
        **python_facts(NEEDED),
        "requirements": requirements,
        "has": digest(tree(f"{IMAGE}/programs")) == wanted,
        "bwrap": shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin"),
        "bounds": bounds(),
        "apiServer": api_server(),
        "node": os.environ.get("IPYBOX_NODE"),
    }


# The files with the limits of a control group, in either version.
BOUNDS = {
    "memory": ("memory.max", "memory/memory.limit_in_bytes"),
    "processes": ("pids.max", "pids/pids.max"),
}
UNBOUNDED = 1 << 60  # without a memory limit, the first version reports more than this


def bounds():
    """Returns the resources in which all processes here together are limited."""
    found = []
    for name, files in BOUNDS.items():
        for file in files:
            try:
                with open(f"/sys/fs/cgroup/{file}") as content:
                    said = content.read().strip()
            except OSError:
                continue  # another version, or not in its own group
            if said.isdigit() and int(said) < UNBOUNDED:
                found.append(name)
                break
    return found


def api_server():
    """The address of the Kubernetes API server, which every pod knows."""
    try:
        port = int(os.environ["KUBERNETES_SERVICE_PORT"])
    except (KeyError, ValueError):
        return None
    return [os.environ.get("KUBERNETES_SERVICE_HOST"), port]


def leave_network():
    """Moves this process to a network namespace with only a loopback, if the system allows that."""
    libc = ctypes.CDLL(None, use_errno=True)
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET):
        return
    ids = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
    for name, text in ids.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    for capability in range(64):
        libc.prctl(
            PR_CAPBSET_DROP, capability, 0, 0, 0
        )  # execve drops capabilities outside the bounding set


def take_rights(rules):
    """Applies the syscall filter to this process and everything that it starts."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(rules) // 8, rules)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.byref(program), 0, 0):
        sys.exit(f"The system call filter does not work: {os.strerror(ctypes.get_errno())}")


def settle(path, root):
    """Makes the folder that code works in, if it is missing, and returns its identity.

    Code of other sessions may have put a link on the way to it. And no code may write to files that control
    this user's programs, or that start the next session outside of its sandbox.
    """
    here = "/" + os.path.normpath(path).lstrip("/")  # normpath() keeps two slashes
    if any(is_in(home, here) for home in homes()):
        sys.exit(
            f"{path} contains the home directory, where code must not write: choose another folder"
        )
    if is_in(root, here):
        sys.exit(f"{path} contains the folders of sessions: choose another folder")
    for file in [sys.executable, *installation(real_executable(), here)]:
        if is_in(file, here):
            sys.exit(
                f"{file} is in {path}, where code could replace what starts the next session: put "
                "Python's environment in another folder (--python PATH)"
            )
    name = sys.orig_argv[0]
    for folder in [] if "/" in name else os.get_exec_path():
        if os.path.isfile(os.path.join(folder, name)):
            break  # the started one
        if is_in(os.path.realpath(folder), here):
            sys.exit(
                f"{name} is looked for in {folder}, where code could put what starts the next session: "
                "name its path (--python PATH)"
            )
    at, flags = os.open("/", os.O_PATH | os.O_CLOEXEC), os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
    for name in filter(None, here.split("/")):
        try:
            below = os.open(name, flags | os.O_CLOEXEC, dir_fd=at)
        except FileNotFoundError:
            os.mkdir(name, 0o700, dir_fd=at)
            below = os.open(name, flags | os.O_CLOEXEC, dir_fd=at)
        except NotADirectoryError:
            sys.exit(
                f"{name} in {path} is a link or a file: code of another session may have put it there. "
                "Name the folder itself"
            )
        os.close(at)
        at = below
    found = os.fstat(at)
    os.close(at)
    return [found.st_dev, found.st_ino]


def become(argv, variables, root):
    """Becomes the launcher, or starts it and cleans up afterwards if this is not PID 1."""
    if os.getpid() == 1:
        os.execve(argv[0], argv, variables)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # code may see this process
    stops = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in stops:
        signal.signal(number, lambda *_: None)  # the launcher ends when its stdin does
    process = subprocess.Popen(argv, cwd="/", env=variables, close_fds=False)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    for number in stops:
        signal.signal(number, lambda number, _: process.send_signal(number))
    threading.Thread(target=outlive_host, args=(process,), daemon=True).start()
    code = process.wait()
    remove(root)
    sys.exit(code if code >= 0 else 128 - code)


def remove(path):
    """Removes a folder, whatever code did to it: Python itself is limited by its recursion depth, and cannot
    enter folders without permissions. Remaining code can stop the removal, but not forever."""
    command = ["sh", "-c", 'chmod -R u+rwx -- "$0"; rm -rf -- "$0"', path]
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    # In its own session, because the host's signals are for the group of this process.
    try:
        subprocess.run(
            command,
            check=False,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
            timeout=REMOVE_SECONDS,
            **quiet,
        )
    except subprocess.TimeoutExpired:
        pass  # the rest of it goes on, unless it was stopped


def outlive_host(process):
    """Kills a launcher that does not end when its host is gone: code can have stopped it."""
    host = select.poll()
    host.register(0, getattr(select, "POLLRDHUP", 0))  # besides its end, which is always reported
    host.poll()
    time.sleep(EXIT_SECONDS)
    process.kill()


def check_mounts(expected):
    """Aborts the start if mounts show other files than the host found.

    Code of another session may have put a link there, which the engine followed. If the engine runs on
    another kernel than the host, nothing can be compared.
    """
    with open("/proc/sys/kernel/random/boot_id") as file:
        if file.read() != expected["kernel"]:
            return
    for path, device, inode in expected["files"]:
        found = os.stat(path)
        if found.st_ino != inode or (found.st_dev != device and not is_from_outside(path, inode)):
            sys.exit(f"{path} was replaced while it was mounted: try again")


# File systems that a virtual machine gets from its host, and that an engine in it may mount again.
# In others, code can make files until one has the inode number that it wants.
FROM_OUTSIDE = ("9p", "virtiofs")

# The roots of file systems have smaller numbers, and often the same.
FIRST_INODE = 1 << 10


def is_from_outside(path, inode):
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        kinds = {line.split(" ")[4]: line.split(" - ")[1].split(" ")[0] for line in file}
    return inode >= FIRST_INODE and kinds.get(path) in FROM_OUTSIDE


def main():
    enter_environment()
    order = read_line()
    os.write(1, json.dumps(look(order["digest"])).encode() + b"\n")
    answer = read_line()
    root = answer["root"]
    if answer["mounts"]:
        check_mounts(answer["mounts"])
    if answer["wall"] and answer["wall"]["workspace"]:
        inner = answer["wall"]["workspace"]
        answer["wall"]["write"].append(inner)
        answer["probe"]["workspace"] = [inner, settle(inner, root)]
    os.mkdir(root, 0o700)
    for folder in answer["folders"]:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    if answer["size"]:
        programs = unpack(read(answer["size"]), answer["programs"])
        if digest(programs) != order["digest"]:
            sys.exit("The programs that arrived are not the ones that the host meant")
        if not answer["wall"]:  # kernels could write these, which would count as a change
            compileall.compile_dir(answer["programs"], quiet=2)
    rules = bytes.fromhex(answer["filter"])
    argv = [
        real_executable(),
        "-I",
        "-S",
        f"{answer['programs']}/launcher/launcher.py",
        json.dumps(answer["probe"]),
    ]

    def prepare():
        if answer["leavesNetwork"]:
            leave_network()
        if rules and not answer["wall"]:
            take_rights(rules)

    variables = {"LANG": "C.UTF-8"}
    if answer["wall"]:
        argv, more = walled(answer["wall"], argv)
        variables |= more
    if answer["supervisor"]:
        program = runpy.run_path(f"{answer['programs']}/launcher/supervisor.py")
        more = {"argv": argv, "env": variables, "cwd": "/", "lock": None, "remove": [root]}
        program["serve_beside"]({**answer["supervisor"], **more}, prepare)
    prepare()
    become(argv, variables, root)


main()
