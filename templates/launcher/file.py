"""Reads or writes one file of the workspace for the host, in the place of kernels.

The host sends a line of JSON on stdin, and to write a file, its bytes. The answer on stdout is a line
with the error, if any, and to read a file, its size and then its bytes. Links are followed, because
they lead to nothing that code could not read itself.
"""

import json
import os
import shutil
import stat
import sys
import uuid

CHUNK = 1 << 16


def answer(error=None, missing=False, size=0):
    said = {"error": error, "missing": missing, "size": size}
    os.write(1, json.dumps(said).encode() + b"\n")


def read(path):
    # Without O_NONBLOCK, opening a pipe would block.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(None, "not a plain file")
        left = status.st_size
        answer(size=left)
        try:
            while left and (part := file.read(min(left, CHUNK))):
                sys.stdout.buffer.write(part)
                left -= len(part)
            sys.stdout.buffer.flush()
        except OSError as error:
            sys.exit(f"{path}: {error}")  # an answer would be read as bytes of the file


def write(path):
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{uuid.uuid4()}.upload")
    with open(temporary, "xb") as file:
        try:
            shutil.copyfileobj(sys.stdin.buffer, file, CHUNK)
            file.flush()
            os.rename(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    answer()


def main():
    order = json.loads(sys.stdin.buffer.readline())
    path = os.path.join(sys.argv[1], *order["parts"])
    try:
        (read if order["reads"] else write)(path)
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        answer(error.strerror or str(error), missing)


main()
