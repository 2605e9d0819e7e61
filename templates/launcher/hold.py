"""Keeps a pod for as long as a session is in it: the first process of its container.

A session comes from outside, by the engine's exec, so its parent is in no namespace of the container's.
Code there cannot start such a process, nor trace this one, and so it cannot keep the pod when its host
is gone. What it can do is stop one, which then counts no more.

The arguments are the seconds that the pod waits for its first session (0: for ever) and, when there is
none any more, for another one.
"""

import ctypes
import os
import signal
import sys
import time

PR_SET_DUMPABLE = 4
EVERY = 1.0


def is_occupied():
    """Whether another process than this one has its parent outside, and runs."""
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
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans that come to us are reaped
    patience = first or float("inf")
    alone_since = time.monotonic()
    while time.monotonic() - alone_since < patience:
        if is_occupied():
            patience = again
            alone_since = time.monotonic()
        time.sleep(EVERY)


main()
