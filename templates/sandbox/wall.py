"""Becomes the one `bwrap` that contains an untrusted program: a kernel, a server or an installer.

It runs where the program will run, but outside of its sandbox: on this machine inside srt's, which
decides on the network, or at a placement. Inside, only the paths in the order exist. The check from
inside, `check.py`, compares what it sees with what this saw.

The host adds the call of `enter()`, or the code of `boot.py`. It also asks a Python of this machine
for `python_facts()` and its `installation()`.
"""

import json
import os
import pwd
import socket
import stat
import sys

# The only files in /proc about the machine that are shown. Nobody may write to them.
SHOWN = {
    *("cgroups", "cpuinfo", "devices", "filesystems", "loadavg", "meminfo", "stat", "swaps"),
    *("uptime", "version", "vmstat", "zoneinfo"),
}
# Programs read these to count processors.
PROCESSORS = ("/sys/devices/system/cpu", "/sys/devices/system/node")

# Folders that contain much else, and the parts that a Python in such a folder needs.
BROAD = {"/", "/etc", "/home", "/opt", "/root", "/tmp", "/var"}
PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")

HOME_SIZE = 1 << 30

SHOW, WRITE, KEEP, MASK = range(4)  # of two for the same path, the later one counts


def is_in(path, folder):
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def homes():
    return {os.path.realpath(home) for home in (os.path.expanduser("~"), pwd_home()) if home}


def pwd_home():
    user = known(os.getuid())
    return user and user.pw_dir


def is_wide(folder):
    """Whether a folder contains the home directory. No code in a sandbox writes there."""
    return any(is_in(home, folder) for home in homes())


def real_executable():
    """This Python's path with a resolved folder, from which Python finds its environment."""
    path = sys.executable
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def parts_of(prefix, workspace):
    """The parts of a Python's folder that code sees: all, unless much else is in it, such as the home
    directory or the workspace."""
    is_broad = prefix in BROAD or any(
        is_in(home, prefix) or prefix == os.path.join(home, ".local") for home in homes()
    )
    if not is_broad and (workspace in (None, prefix) or not is_in(workspace, prefix)):
        return [prefix]
    return [path for name in PARTS if os.path.exists(path := os.path.join(prefix, name))]


def installation(executable, workspace):
    """The files and folders that this Python needs."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    real = sorted({os.path.realpath(prefix) for prefix in prefixes})
    found = [part for prefix in real for part in parts_of(prefix, workspace)]
    for _ in range(20):
        if not any(executable.startswith(f"{prefix}/") for prefix in found):
            found.append(executable)
        if not os.path.islink(executable):
            break
        target = os.path.join(os.path.dirname(executable), os.readlink(executable))
        folder = os.path.realpath(os.path.dirname(target))
        executable = os.path.join(folder, os.path.basename(target))
    return found


def python_facts(needed):
    """Facts about this Python, and which of these packages, given by module, it lacks."""
    import importlib.util  # not needed where a sandbox is made

    python = real_executable()
    checker = os.path.join(os.path.dirname(python), "ty")
    return {
        "python": python,
        "checker": checker if os.path.isfile(checker) and not os.path.islink(checker) else None,
        "missing": [
            name for module, name in needed.items() if not importlib.util.find_spec(module)
        ],
    }


def closed_to_others(folder):
    """The entries of a folder that this user may read, such as root, but not every user."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        is_folder, is_link = entry.is_dir(follow_symlinks=False), entry.is_symlink()
        try:
            needed = 0o005 if is_folder else 0o004
            is_open = is_link or entry.stat(follow_symlinks=False).st_mode & needed == needed
        except FileNotFoundError:
            continue
        if not is_open:
            if os.access(entry.path, os.R_OK):
                yield entry.path
        elif is_folder:
            yield from closed_to_others(entry.path)


def hosts():
    """The names of this machine, which lead to the loopback: there is no other interface inside."""
    names = dict.fromkeys(("localhost", socket.gethostname()))
    return f"127.0.0.1 {' '.join(names)}\n::1 localhost ip6-localhost ip6-loopback\n"


def user_inside():
    """The user that code sees itself as. Root becomes another one: programs check who they are, and as root
    would try what only root may do. Its files and its rights stay those of the user outside."""
    uid = os.getuid()
    return uid if uid != 0 else next(free for free in range(1000, 1 << 16) if not known(free))


def known(uid):
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def users(uid):
    """The known users with the one inside, whom only a directory may know; `None` if the file does."""
    with open("/etc/passwd", encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    if any(line.split(":")[2:3] == [str(uid)] for line in text.splitlines()):
        return None
    name = os.environ.get("USER") or "user"
    taken = {line.split(":")[0] for line in text.splitlines()}
    if name in taken or not name.replace("-", "").replace("_", "").isalnum():
        name = f"user{uid}"
    end = "" if text.endswith("\n") else "\n"
    return f"{text}{end}{name}:x:{uid}:{os.getgid()}::{os.path.expanduser('~')}:/bin/sh\n"


def kept_open(data):
    """A descriptor from which bubblewrap, or the program inside, reads this."""
    fd = os.memfd_create("ipybox", 0)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return str(fd)


def replaced(path, text):
    """Shows other text at the path of a file of the system."""
    if text is None or os.path.islink(path) or not os.path.isfile(path):
        return []
    data = text.encode(errors="surrogateescape")
    return ["--perms", "0444", "--ro-bind-data", kept_open(data), path]


def in_memory(path, size):
    return ["--perms", "1777", *(["--size", str(size)] if size else []), "--tmpfs", path]


def proc(order):
    # If the present one is incomplete, the system allows no other one.
    args = ["--dev-bind", "/proc", "/proc"] if order["proc"] == "host" else ["--proc", "/proc"]
    for name in sorted(os.listdir("/proc")):
        path = f"/proc/{name}"
        if name.isdigit() or name in SHOWN or os.path.islink(path):
            continue
        if name in ("sys", "sysvipc"):
            args += ["--ro-bind", path, path]
        elif os.path.isdir(path):
            args += ["--tmpfs", path, "--remount-ro", path]
        else:
            args += ["--ro-bind", "/dev/null", path]
    return args


def mounts(order):
    """The mounts, by path, so that a folder comes before its contents."""
    own = installation(real_executable(), order["workspace"])
    etc = [path for path in order["show"] if is_in(path, "/etc") and path != "/etc"]
    etc.append("/etc/hosts")  # another text is shown there
    closed = (path for path in closed_to_others("/etc") if "/etc" in order["show"])
    masked = [path for path in closed if not any(is_in(path, named) for named in etc)]
    found = {}
    for kind, paths in (
        (SHOW, [*order["show"], *own]),
        (WRITE, order["write"]),
        (KEEP, order["keep"]),
        (MASK, [*masked, *order["mask"]]),
    ):
        for path in paths:
            if is_there(path, kind):
                found[path] = kind
    return {path: kind for path, kind in sorted(found.items()) if is_needed(path, kind, found)}


def is_there(path, kind):
    """Whether there is anything to mount. Code can briefly close a folder with paths that it must
    not see."""
    try:
        os.lstat(path)
    except OSError as error:
        if kind in (KEEP, MASK) and isinstance(error, PermissionError):
            sys.exit(f"{path} cannot be kept from code: {error.strerror}")
        return False
    return True


def is_needed(path, kind, found):
    """Whether a mount changes what is seen of the folder that it is in."""
    around = found.get(folders_above(path, found)[-1]) if path != "/" else None
    if kind == SHOW:
        return around not in (SHOW, WRITE)
    return kind == WRITE or around not in (None, MASK)


def folders_above(path, found):
    """The folders that lead to a path, up to the first one that is mounted itself, which is the last."""
    folders = []
    while path != "/" and (not folders or folders[-1] not in found):
        path = os.path.dirname(path)
        folders.append(path)
    return folders


def covers_in(owned, found):
    """The folders in a folder of code that lead to mounts. Code could move one of them away, with
    all that is mounted in it, and put its own programs there for the next kernel, if nothing were
    mounted on it."""
    leading = (folders_above(path, found) for path in found)
    return sorted(
        {
            folder
            for *folders, around in leading
            if around not in found
            for folder in folders
            if folder != owned and is_in(folder, owned)
        }
    )


def pins(found):
    """The mounts that keep folders in place: code could move one away, deeper than the search for
    secrets goes, with what is masked or kept in it. They count although others cover them, and must
    come before these: what they show is never seen, so no check compares it."""
    movable = {}
    for path, kind in found.items():
        *folders, around = folders_above(path, found) or [path]
        if kind in (KEEP, MASK) and found.get(around) == WRITE:
            movable.setdefault(around, set()).update(folders)
    paths = [
        path for root, folders in movable.items() if folders for path in (root, *sorted(folders))
    ]
    return [argument for path in paths for argument in ("--bind", path, path)]


def wall(order):
    """The command line of bubblewrap, without the program, and what the check from inside expects."""
    argv = [order["bwrap"], "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    argv += ["--unshare-cgroup", "--die-with-parent", "--cap-drop", "ALL"]
    uid = user_inside()
    argv += ["--uid", str(uid)]
    argv += ["--add-seccomp-fd", kept_open(bytes.fromhex(order["filter"]))]
    argv += ["--unshare-net", "--new-session"] if order["network"] == "none" else []
    found = mounts(order)
    whole = found.pop("/", None)
    argv += ["--tmpfs", "/"] if whole is None else [BINDS[whole], "/", "/"]
    argv += ["--dev", "/dev", *in_memory("/dev/shm", order["shm"])]
    argv += [*proc(order), "--tmpfs", "/sys"]
    for path in PROCESSORS:
        argv += ["--ro-bind-try", path, path]
    for path in order["devices"]:
        argv += ["--dev-bind-try", path, path]
    temporary = order["tmp"]
    if whole is None:
        argv += ["--bind", temporary, "/tmp"] if temporary else in_memory("/tmp", None)
    if whole is None and order["home"] and order["home"] not in found:
        argv += in_memory(order["home"], HOME_SIZE)
    covers, links = covers_in("/tmp", found), set()
    for path in covers:
        argv += ["--tmpfs", path]
    argv += pins(found)
    for path, kind in found.items():
        if kind == MASK and os.path.isdir(path) and not os.path.islink(path):
            argv += ["--tmpfs", path]
            covers.append(path)
        elif kind == MASK:
            argv += ["--ro-bind", "/dev/null", path]
        elif os.path.islink(path) and is_shown(os.path.realpath(path), found):
            argv += ["--symlink", os.readlink(path), path]  # such as /bin
            links.add(path)
        else:
            argv += [BINDS[kind], path, path]
    argv += replaced("/etc/hosts", hosts()) if "/etc" in found else []
    argv += replaced("/etc/passwd", users(uid)) if "/etc" in found else []
    covers += [] if whole == WRITE else ["/"]
    for path in ["/dev", "/sys", *sorted(covers, reverse=True)]:
        argv += ["--remount-ro", path]
    if not order["namespaces"]:
        argv += ["--disable-userns"]
    owned = [path for path in (order["workspace"], *order["write"]) if path and not is_wide(path)]
    shown = [path for path, kind in found.items() if kind != MASK and path not in links]
    shown += [] if whole is None else ["/"]
    expected = {
        "namespaces": {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in NAMESPACES},
        "seen": [
            [path, *identity(path, ["/"] if path in order["real"] else owned)] for path in shown
        ],
        "kept": [
            path for path, kind in found.items() if kind in (SHOW, KEEP) and path not in links
        ],
        "masked": [path for path, kind in found.items() if kind == MASK],
        "identities": order["identities"],
        "user": os.getuid(),
    }
    return argv, expected


BINDS = {SHOW: "--ro-bind", WRITE: "--bind", KEEP: "--ro-bind"}
NAMESPACES = ("ipc", "uts", "cgroup", "pid", "user", "mnt")


def is_shown(path, found):
    return any(
        path != other and is_in(path, other) for other, kind in found.items() if kind != MASK
    )


def identity(path, owned):
    """The identity of a path's file. In folders of code, which can put links anywhere, none is followed."""
    around = min((folder for folder in owned if is_in(path, folder)), key=len, default=path)
    at = os.open(around, os.O_PATH | os.O_CLOEXEC)
    for name in path[len(around) :].strip("/").split("/") if path != around else ():
        below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        os.close(at)
        at = below
        if stat.S_ISLNK(os.fstat(at).st_mode):
            sys.exit(
                f"{name} in {path} is a link, and code could have put it there: name its target"
            )
    found = os.fstat(at)
    os.close(at)
    return [found.st_dev, found.st_ino]


def walled(order, command):
    """The command line of a program in its sandbox, and the variable that its check reads."""
    argv, expected = wall(order)
    seen = json.dumps(expected).encode(errors="surrogateescape")
    return [*argv, "--chdir", "/", "--", *command], {"IPYBOX_WALL": kept_open(seen)}


def enter():
    """Becomes the sandbox that a file orders, with the program in it. Argument: the file."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")  # when memory runs out, this is ended before the user's programs
    except OSError:
        pass  # it may be higher already
    with open(sys.argv[1], encoding="utf-8", errors="surrogateescape") as file:
        order = json.load(file)
    inherited = dict(os.environ)
    os.environ.update(order["environment"])
    argv, variables = walled(order, order["command"])
    # Without permission to look for bwrap, ipybox leaves the search to the PATH.
    os.execvpe(argv[0], argv, {**inherited, **variables})
