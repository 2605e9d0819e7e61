"""Copies folders of the host to the place of kernels.

The host sends a line of JSON on stdin, with the folder's path here and the archive's size, then the
archive: compressed JSON with the text of each file. An existing folder is replaced as a whole, so that
code never sees a part of it. The answer is a line on stdout.
"""

import json
import os
import shutil
import sys
import zlib

MAX_ARCHIVE = 1 << 27


def put(path, archive):
    loads = zlib.decompressobj()
    texts = json.loads(loads.decompress(archive, MAX_ARCHIVE))
    if not loads.eof:
        raise ValueError("the archive is too large or ends early")
    # Code cannot have made these, so that they could not be removed.
    fresh, old = (f"{path}.{os.urandom(8).hex()}" for _ in range(2))
    os.makedirs(fresh, mode=0o700)
    try:
        for name, text in texts.items():
            parts = name.split("/")
            if any(part in ("", ".", "..") or "\0" in part for part in parts):
                raise ValueError(f"the archive has a file {name!r}")
            os.makedirs(os.path.join(fresh, *parts[:-1]), mode=0o700, exist_ok=True)
            with open(os.path.join(fresh, *parts), "x", encoding="utf-8", newline="") as file:
                file.write(text)
        if os.path.lexists(path):
            os.rename(path, old)
        os.rename(fresh, path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def main():
    host = sys.stdin.buffer
    while line := host.readline():
        order = json.loads(line)
        archive = host.read(order["size"])
        if len(archive) < order["size"]:
            return  # the host has gone
        try:
            put(order["path"], archive)
            answer = {"error": None}
        except (OSError, ValueError, zlib.error) as error:
            answer = {"error": str(error)}
        os.write(1, json.dumps(answer).encode() + b"\n")


main()
