"""Prints what code must not see of a folder that it works in, as JSON.

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


def is_secret(name):
    return name in NAMES or (SECRET.search(name) and not EXAMPLE.search(name))


def target_in(folder, link):
    """The target of a link, if it is in the folder: what is elsewhere, code does not see."""
    target = os.path.realpath(link)
    return target if target.startswith(f"{folder}/") and os.path.exists(target) else None


def is_socket(path):
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def search(root):
    """Finds by level, so that a deep tree takes none of the entries of those above it."""
    found, entries, level = [], 0, [(root, True)]
    for depth in range(ORDER["depth"]):
        below = []
        for folder, goes_on in level:
            try:
                listed = os.scandir(folder)
            except OSError:
                continue  # what cannot be listed is what code cannot list either
            with listed:
                for entry in listed:
                    entries += 1
                    if entries > ORDER["entries"]:
                        return found, entries
                    name, path = entry.name, entry.path
                    if entry.is_dir(follow_symlinks=False):
                        if name == ORDER["state"]:
                            found.append(path)
                        elif goes_on and name not in UNSEARCHED:
                            below.append((path, True))
                        elif goes_on and name == ".git":
                            below.append((path, False))  # programs of git listen there
                    elif is_secret(name):
                        found.append(target_in(root, path) if entry.is_symlink() else path)
                    elif not entry.is_file(follow_symlinks=False) and is_socket(path):
                        found.append(path)
        level = below
    return found, entries


PATHS, ENTRIES = search(ORDER["folder"])
PATHS = list(dict.fromkeys(path for path in PATHS if path))
json.dump({"paths": PATHS[: ORDER["most"]], "found": len(PATHS), "entries": ENTRIES}, sys.stdout)
