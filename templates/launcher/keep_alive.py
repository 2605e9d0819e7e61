"""Keeps a pod running while it has a session: the first process of its container.

A session is started from outside, by the engine's exec, so its parent is not in the container's
namespace. Code cannot start such a process, nor trace this one, so it cannot keep the pod alive when
its host is gone. It can stop such a process, which then no longer counts.

The arguments are the seconds to wait for the first session (0: forever), and for another one after
that.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_DUMPABLE = 4
EVERY = 1.0


def is_occupied():
    """Whether a process other than this one has its parent outside and is not stopped."""
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue  # it has just ended
        if int(parent) == 0 and state not in (b"Z", b"T"):
            return True
    return False


def main():
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    first, again = (float(word) for word in sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reap orphans
    patience = first or float("inf")
    alone_since = time.monotonic()
    while time.monotonic() - alone_since < patience:
        if is_occupied():
            patience = again
            alone_since = time.monotonic()
        time.sleep(EVERY)


main()
