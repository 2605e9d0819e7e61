"""Prints the paths that code must not see in its working folder, and those of its git repository,
as JSON.

Argument: the folder, the names of secrets, and how many paths can be hidden, as JSON. It is Python
because that lists large folders quickly, and can name files whose names are not UTF-8.
"""

import json
import os
import re
import stat
import sys

ORDER = json.loads(sys.argv[1])
NAMES = frozenset(ORDER["names"])
SECRET, EXAMPLE = re.compile(ORDER["pattern"]), re.compile(ORDER["example"])
UNSEARCHED = "node_modules"  # no secrets of the user, however large it is
MAX_DEPTH = 4  # levels of folders that are searched
MAX_ENTRIES = 10_000_000  # that are looked at; a million take about a second
# The parts of a git repository, and those that are only data.
GIT_DATA = frozenset(("lfs", "logs", "objects", "refs", "reftable"))
PARTS = ("HEAD", "config", "packed-refs", "shallow", "info", "hooks", *sorted(GIT_DATA))


def is_secret(name):  # names without a leading dot are not matched: most of up to a million
    return name in NAMES or (name[0] == "." and SECRET.search(name) and not EXAMPLE.search(name))


def rank(path):
    """Orders the paths to hide: first those at the top under names that exist once, then those changed
    long ago. Code can choose neither."""
    folder, name = os.path.split(path)
    if folder == ORDER["folder"] and (name in NAMES or name in (".env", ORDER["state"])):
        return (0, 0)
    try:
        return (1, os.lstat(path).st_ctime_ns)
    except OSError:
        return (2, 0)


def first(paths, most):
    """The ones to hide if there are too many. Half may be ipybox's own folders: code can make many of those."""
    states, others = [], []
    for path in sorted(paths, key=rank):
        (states if os.path.basename(path) == ORDER["state"] else others).append(path)
    states = states[: max(most // 2, most - len(others))]
    return states + others[: most - len(states)]


def target_in(folder, link):
    """The file that a link leads to, if it is in the folder. Elsewhere, code sees only what it is shown."""
    target = os.path.realpath(link)
    return target if target.startswith(f"{folder}/") and os.path.isfile(target) else None


def is_socket(path):
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def listing(folder):
    """Lists a folder. One that is closed to its owner is closed to root inside, who cannot mount on it."""
    status = os.stat(folder)
    is_own = status.st_uid == os.getuid()
    if (is_own and status.st_mode & 0o500 != 0o500) or not os.access(folder, os.X_OK):
        raise PermissionError
    return os.scandir(folder)


def search(root, is_git=False):
    """Finds secrets, sockets and ipybox's own folders by level. The data of git's repositories hold none."""
    state, found = ORDER["state"], []
    entries, level = 0, [(root, is_git)]
    for _ in range(MAX_DEPTH):
        below = []
        for folder, in_git in level:
            try:
                listed = listing(folder)
            except (FileNotFoundError, NotADirectoryError):
                continue  # code has removed it
            except PermissionError:
                if folder == root:
                    sys.exit("it cannot be listed")
                found.append(folder)  # code may open it again
                continue
            with listed:
                for entry in listed:
                    entries += 1
                    if entries > MAX_ENTRIES:
                        sys.exit(
                            f"it has more than {MAX_ENTRIES} files and folders: name a smaller folder"
                        )
                    name = entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if name == state:
                            found.append(entry.path)
                        elif name != UNSEARCHED and not (in_git and name in GIT_DATA):
                            below.append((entry.path, in_git or name == ".git"))
                    elif is_secret(name):
                        target = target_in(root, entry.path) if entry.is_symlink() else entry.path
                        if target is not None:
                            found.append(target)
                    elif not entry.is_file(follow_symlinks=False) and is_socket(entry.path):
                        found.append(entry.path)
        level = below
    return found


def read(path):
    """The text of a small file. Never waits for what code could put there instead."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return os.fsdecode(file.read(1 << 16))
    except OSError:
        return ""


def repository_of(root):
    """The parts that git needs of the repository of a worktree or a submodule, if it is its own. Beside it, a
    bare repository may have other worktrees.

    Code can write its `.git`, so the folder in it counts only if it leads back, which is written outside.
    """
    named = re.match(r"gitdir: ([^\n\0]+)", read(f"{root}/.git"))
    if named is None:
        return []
    own = os.path.realpath(os.path.join(root, named[1]))
    common, kind = os.path.split(os.path.dirname(own))
    if kind == "worktrees" and common.endswith((".git", "/.bare")):
        leads_back = read(f"{own}/gitdir").rstrip("\r\n") == f"{root}/.git"
    elif "/.git/modules/" in own:
        setting = r"^[ \t]*worktree[ \t]*=[ \t]*([^\n\0]+)"
        tree = re.search(setting, read(f"{own}/config"), re.MULTILINE)
        common = own
        leads_back = tree is not None and os.path.realpath(os.path.join(own, tree[1])) == root
    else:
        return []
    if not leads_back or root.startswith(f"{common}/"):
        return []
    parts = [own] if own != common else []
    return [*(path for name in PARTS if is_real(path := f"{common}/{name}")), *parts]


def is_real(path):
    return os.path.exists(path) and not os.path.islink(path)


PATHS = search(ORDER["folder"])
REPOSITORY = repository_of(ORDER["folder"])
for part in REPOSITORY:
    if os.path.isdir(part) and os.path.basename(part) not in GIT_DATA:
        PATHS += search(part, True)  # programs of git listen there
PATHS = list(dict.fromkeys(PATHS))
HIDDEN = PATHS if len(PATHS) <= ORDER["most"] else first(PATHS, ORDER["most"])
json.dump({"paths": HIDDEN, "found": len(PATHS), "repository": REPOSITORY}, sys.stdout)
