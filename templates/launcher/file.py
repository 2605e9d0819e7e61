"""Reads or writes one file, or lists or replaces a folder, for the host, in the place of kernels.

The host sends a line of JSON on stdin, and to write a file, its bytes, or to replace a folder,
compressed JSON with the text of each file. The answer on stdout is a line with the error, if any,
and for a file or a list, its size and then its bytes. Links are followed, because they lead to
nothing that code could not read itself.
"""

import fcntl
import json
import os
import re
import shutil
import stat
import sys
import uuid
import zlib

CHUNK = 1 << 16
MAX_ENTRIES = 10_000
UNFINISHED = re.compile(r"\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.upload")


def answer(error=None, missing=False, size=0):
    said = {"error": error, "missing": missing, "size": size}
    os.write(1, json.dumps(said).encode() + b"\n")


def read(path):
    # Without O_NONBLOCK, opening a pipe would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            is_folder = stat.S_ISDIR(status.st_mode)
            hint = "; a path that ends with / lists a folder" if is_folder else ""
            raise OSError(None, f"not a plain file{hint}")
        left = status.st_size
        answer(size=left)
        try:
            while left and (part := file.read(min(left, CHUNK))):
                sys.stdout.buffer.write(part)
                left -= len(part)
            sys.stdout.buffer.flush()
        except OSError as error:
            sys.exit(f"{path}: {error}")  # an answer would be read as bytes of the file


def list_folder(path):
    entries = []
    with os.scandir(path) as found:
        for entry in found:
            if len(entries) == MAX_ENTRIES:
                raise OSError(None, f"more than {MAX_ENTRIES} entries: list it in a cell")
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # code has removed it
            is_file = stat.S_ISREG(status.st_mode)
            kind = (
                "file" if is_file else "folder" if entry.is_dir(follow_symlinks=False) else "other"
            )
            entries.append(
                {
                    "name": entry.name,
                    "type": "link" if entry.is_symlink() else kind,
                    "size": status.st_size if is_file else 0,
                    "modified": status.st_mtime,
                }
            )
    data = json.dumps(entries).encode()
    answer(size=len(data))
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write(path):
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    remove_unfinished(folder)
    temporary, fd = unfinished(folder)
    with open(fd, "wb") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file, CHUNK)
            file.flush()
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    answer()


def unfinished(folder):
    """Makes a file that is locked while it is written."""
    while True:
        path = os.path.join(folder, f".{uuid.uuid4()}.upload")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        lock(fd)
        if os.fstat(fd).st_nlink:
            return path, fd
        os.close(fd)  # it was removed before the lock


def remove_unfinished(folder):
    """Removes the leftovers of writers that were killed when their stream broke off."""
    for name in filter(UNFINISHED.fullmatch, os.listdir(folder)):
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except OSError:
            continue  # somebody else was first, or code has replaced it
        if lock(fd, fcntl.LOCK_NB) and os.fstat(fd).st_nlink:
            os.unlink(path)
        os.close(fd)


def replace(path):
    """Replaces a folder as a whole, so that code never sees a part of it."""
    texts = json.loads(zlib.decompress(sys.stdin.buffer.read()))
    # Code cannot have made these names first, to prevent their removal.
    fresh, old = (f"{path}.{os.urandom(8).hex()}" for _ in range(2))
    os.makedirs(fresh, mode=0o700)
    try:
        for name, text in texts.items():
            os.makedirs(os.path.dirname(os.path.join(fresh, name)), mode=0o700, exist_ok=True)
            with open(os.path.join(fresh, name), "x", encoding="utf-8", newline="") as file:
                file.write(text)
        if os.path.lexists(path):
            os.rename(path, old)
        os.rename(fresh, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    answer()


def lock(fd, how=0):
    """Returns whether a file is locked now: some file systems have no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | how)
    except OSError:
        return False
    return True


def main():
    order = json.loads(sys.stdin.buffer.readline())
    path = os.path.join(sys.argv[1], *order["parts"])
    try:
        does = {"read": read, "write": write, "list": list_folder, "replace": replace}
        does[order["does"]](path)
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        answer(error.strerror or str(error), missing)


main()
