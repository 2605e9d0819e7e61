"""Becomes the type checker, after dropping privileges that it does not need.

It reads files that executed code wrote, so it must not write files, make connections or send signals, as
far as this Linux can prevent that, and its resources are limited.
"""

import ctypes
import os
import resource
import struct
import sys

MEMORY = 3 << 30
CPU_SECONDS = 3600

PR_SET_NO_NEW_PRIVS = 38

# Landlock's access rights, by the version that introduced them, except reading and executing.
WRITING = ((1, 0x1FF2), (2, 0x2000), (3, 0x4000), (5, 0x8000))
TCP, SCOPES = 3, 3


def lock():
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(444, None, 0, 1)
    if version < 1:
        return  # the sandbox is the only protection
    attributes = struct.pack("Q", sum(rights for since, rights in WRITING if version >= since))
    if version >= 4:
        attributes += struct.pack("Q", TCP)
    if version >= 6:
        attributes += struct.pack("Q", SCOPES)
    ruleset = libc.syscall(444, attributes, len(attributes), 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if ruleset < 0 or libc.syscall(446, ruleset, 0) < 0:
        sys.exit(f"Landlock does not work: {os.strerror(ctypes.get_errno())}")
    os.close(ruleset)


if sys.platform == "linux":
    lock()
    # On other systems, limiting the address space does not limit memory.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
os.execve(sys.argv[1], sys.argv[1:], {"TY_MAX_PARALLELISM": "1"})
