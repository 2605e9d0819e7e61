"""Explains how ipybox is involved in an exception, and what helps."""

import errno
import mmap
import os
import re
import resource
import sys
from pathlib import Path
from typing import Any, Optional

from . import installers, servers
from .interrupts import describe, hide_handler

#: How libraries report that they cannot allocate memory; a GPU and V8 have their own limits.
_NO_MEMORY = re.compile(
    r"bad_alloc|can(?:no|')t allocate memory|unable to (?:allocate|mmap)|failed to map segment"
    r"|(?<!cuda )(?<!heap )\bout ?of ?memory",
    re.IGNORECASE,
)
#: How they report that a process ended without a message.
_KILLED = re.compile(r"SIGKILL|terminated abruptly|exited unexpectedly|exit code: -9\b")
#: Memory for the traceback of code that has used up all of its own; nothing is written there.
_RESERVE = 32 << 20

#: Errors about a host whose name cannot be resolved in the sandbox, and a host that its proxy refuses.
_NO_NAME = re.compile(
    r"name resolution|Name or service not known|nodename nor servname|Network is unreachable"
)
_REFUSED = "Tunnel connection failed: 403"

#: Errors of asyncio and anyio about a loop that already runs.
_LOOP_RUNS = re.compile(
    r"cannot be called from a running event loop|event loop is already running"
    r"|another loop is running|Already running asyncio in this thread"
)
_NO_CHROMIUM_SANDBOX = re.compile(r"No usable sandbox|without --no-sandbox")


def install(shell: Any, installer: Optional[str], sandboxed: bool) -> None:
    """Add a line to the traceback of each exception that needs one."""
    show, show_lines = shell.showtraceback, shell._showtraceback
    killed = _killed_for_memory()
    reserve: list[mmap.mmap] = []

    def keep_reserve(_info: object = None) -> None:
        if not reserve:
            try:
                reserve.append(mmap.mmap(-1, _RESERVE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            except OSError:
                pass  # the code has left no room for it

    def show_from_reserve(*args: Any, **options: Any) -> None:
        reserve.clear()
        error = sys.exc_info()[1]
        describe(error)
        hide_handler(error)
        servers.name_nearest(error)
        show(*args, **options)

    def show_with_hint(kind: Any, error: Any, lines: list[str]) -> None:
        hint = (
            _limit_hint(error, "\n".join(lines), killed)
            or installers.advice(error, installer)
            or _hint(str(error), sandboxed)
        )
        show_lines(kind, error, lines if hint is None else [*lines, f"[ipybox] {hint}"])

    shell.showtraceback, shell._showtraceback = show_from_reserve, show_with_hint
    shell.events.register("pre_run_cell", keep_reserve)


def _hint(text: str, sandboxed: bool) -> Optional[str]:
    if _LOOP_RUNS.search(text):
        return "A loop already runs here, so await the coroutine: await main()"
    if not sandboxed:
        return None
    if _NO_CHROMIUM_SANDBOX.search(text):
        return "Chromium's own sandbox does not start in this one: pass it --no-sandbox"
    if _NO_NAME.search(text) and "HTTPS_PROXY" in os.environ:
        return (
            "Allowed hosts can only be reached through the proxy in HTTPS_PROXY, which this library "
            "did not use. requests, httpx and urllib use it; aiohttp needs ClientSession(trust_env=True)"
        )
    if _NO_NAME.search(text) or _REFUSED in text:
        return (
            "No network: code can only reach hosts in network.allowedDomains of --sandbox-config "
            "(docs/network.md)"
        )
    return None


def _limit_hint(error: Any, traceback: str, killed: Optional[int]) -> Optional[str]:
    limit = _limit_behind(error, traceback, killed)
    if limit is None:
        return None
    option, words = limit
    return (
        f"A limit applies: {words}. Raise it with limits.{option}, or with --limit {option}=N on the "
        "command line"
    )


def _limit_behind(error: Any, traceback: str, killed: Optional[int]) -> Optional[tuple[str, str]]:
    text, number = str(error), getattr(error, "errno", None)
    memory, processes = _limit("RLIMIT_DATA"), _limit("RLIMIT_NPROC")
    file, seconds = _limit("RLIMIT_FSIZE"), _limit("RLIMIT_CPU")
    no_thread = "can't start new thread" in text
    if memory is not None and (
        isinstance(error, MemoryError)
        or number == errno.ENOMEM
        or (_NO_MEMORY.search(text) and _used("VmData", "VmHWM") > memory / 2)
        or (no_thread and _used("VmPeak") > memory)  # the threads may have ended since
        or (_KILLED.search(text) and _killed_for_memory() != killed)
    ):
        return "memoryBytes", f"{_size(memory)} of memory per process"
    # A socket that would block raises the same exception as a fork that is refused.
    no_process = number == errno.EAGAIN and "fork" in traceback
    if processes is not None and (no_process or no_thread):
        return "processes", f"{processes} processes and threads"
    if file is not None and (number == errno.EFBIG or "SIGXFSZ" in text):
        return "fileBytes", f"{_size(file)} per file"
    if seconds is not None and "SIGXCPU" in text:
        return "cpuSeconds", f"{seconds} s of CPU time per process"
    return None


def _limit(name: str) -> Optional[int]:
    soft = resource.getrlimit(getattr(resource, name))[0]
    return None if soft == resource.RLIM_INFINITY else soft


def _used(*names: str) -> int:
    """The largest of some figures of this process, in bytes."""
    status = re.findall(r"^(\w+):\s+(\d+) kB", _read("/proc/self/status"), re.MULTILINE)
    return max((int(kib) << 10 for name, kib in status if name in names), default=0)


def _killed_for_memory() -> Optional[int]:
    """How many processes of this machine the system has killed for lack of memory, if known."""
    count = re.search(r"^oom_kill (\d+)", _read("/proc/vmstat"), re.MULTILINE)
    return None if count is None else int(count[1])


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # not on this system
        return ""


def _size(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if number < 1 << 10:
            return f"{number:.4g} {unit}"
        number /= 1 << 10
    return f"{number:.4g} GiB"
