"""Prints what code must not see of a folder that it works in, and where its git repository is, as JSON.

Argument: the folder, the names of secrets, and limits, as JSON. It is Python because that lists large folders
quickly, and can name what is not UTF-8.
"""

import json
import os
import re
import stat
import sys

ORDER = json.loads(sys.argv[1])
NAMES = frozenset(ORDER["names"])
SECRET, EXAMPLE = re.compile(ORDER["pattern"]), re.compile(ORDER["example"])
UNSEARCHED = frozenset(ORDER["unsearched"])


def is_secret(name):  # what has no dot in front is not matched: most names, of up to a million
    return name in NAMES or (name[0] == "." and SECRET.search(name) and not EXAMPLE.search(name))


def rank(path):
    """What is hidden first: ipybox's own, what a user keeps at the top, then what was changed long ago, which
    code cannot choose."""
    folder, name = os.path.split(path)
    if name == ORDER["state"]:
        return (0, 0)
    if folder == ORDER["folder"] and (name in NAMES or name == ".env"):
        return (1, 0)
    try:
        return (2, os.lstat(path).st_ctime_ns)
    except OSError:
        return (3, 0)


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
    """What is in a folder. One that is closed to its owner is closed to root inside, who cannot mount on it."""
    status = os.stat(folder)
    is_own = status.st_uid == os.getuid()
    if (is_own and status.st_mode & 0o500 != 0o500) or not os.access(folder, os.X_OK):
        raise PermissionError
    return os.scandir(folder)


def search(root, depth):
    """Finds by level, so that a deep tree takes none of the entries of those above it.

    ipybox's own folders come first, that of this folder before all: code can make as many secrets as it likes.
    """
    state, most = ORDER["state"], ORDER["entries"]
    own = os.path.join(root, state)
    states, found = [own] if os.path.isdir(own) else [], []
    entries, level = 0, [(root, True)]
    for _ in range(depth):
        below = []
        for folder, goes_on in level:
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
                    if entries > most:
                        return states + found, entries
                    name = entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if name == state:
                            states.append(entry.path)
                        elif goes_on and name not in UNSEARCHED:
                            below.append((entry.path, True))
                        elif goes_on and name == ".git":
                            below.append((entry.path, False))  # programs of git listen there
                    elif is_secret(name):
                        target = target_in(root, entry.path) if entry.is_symlink() else entry.path
                        if target is not None:
                            found.append(target)
                    elif not entry.is_file(follow_symlinks=False) and is_socket(entry.path):
                        found.append(entry.path)
        level = below
    return states + found, entries


def read(path):
    """The text of a small file; none of what code could put there instead is waited for."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return os.fsdecode(file.read(1 << 16))
    except OSError:
        return ""


def repository_of(root):
    """The folder of git outside of a worktree or a submodule, if that is its own.

    Code can write its `.git`, so what that names counts only if it leads back, which is written outside.
    """
    named = re.match(r"gitdir: ([^\n\0]+)", read(f"{root}/.git"))
    if named is None:
        return None
    own = os.path.realpath(os.path.join(root, named[1]))
    common, kind = os.path.split(os.path.dirname(own))
    if kind == "worktrees" and common.endswith((".git", "/.bare")):
        shown, leads_back = common, read(f"{own}/gitdir").rstrip("\r\n") == f"{root}/.git"
    elif "/.git/modules/" in own:
        tree = re.search(r"^\s*worktree\s*=\s*([^\n\0]+)", read(f"{own}/config"), re.MULTILINE)
        shown = own
        leads_back = tree is not None and os.path.realpath(os.path.join(own, tree[1])) == root
    else:
        return None
    return shown if leads_back and not root.startswith(f"{shown}/") else None


PATHS, ENTRIES = search(ORDER["folder"], ORDER["depth"])
REPOSITORY = repository_of(ORDER["folder"])
if REPOSITORY is not None:
    PATHS += search(REPOSITORY, 1)[0]  # programs of git listen there
PATHS = list(dict.fromkeys(PATHS))
if len(PATHS) > ORDER["most"]:
    PATHS.sort(key=rank)
json.dump(
    {
        "paths": PATHS[: ORDER["most"]],
        "found": len(PATHS),
        "entries": ENTRIES,
        "repository": REPOSITORY,
    },
    sys.stdout,
)
