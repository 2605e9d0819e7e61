"""Starts an IPython kernel, which ends with the gateway that started it.

Its settings come as one JSON object on stdin, because code of another kernel could read a file with the
key of the connection.

They include the folders of PYTHONPATH, which are added after the import of the kernel's own modules and
those that set it up: a file in the workspace with the same name as one of them must not replace it or
prevent the start. For the same reason, and because code of an earlier kernel may have written them, no
files in the home directory or the workspace run automatically in a new kernel.
"""

import sys

sys.path.pop(0)  # the folder of this file

import faulthandler
import gc
import importlib
import json
import logging
import os
import resource
import socket
import traceback

if sys.platform == "linux":
    import ctypes
    import signal
    import struct

    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.environ.get("JPY_PARENT_PID") not in (None, str(os.getppid())):
        sys.exit("The gateway ended while the kernel was starting")

gc.disable()  # until it is set up, because nothing is garbage yet, and looking for it takes time

# Nobody can attach a debugger, and importing it takes a third of the start. Code may still import it.
sys.modules["debugpy"] = None
import zmq  # noqa: E402
from ipykernel import debugger, kernelapp  # noqa: E402, F401
from traitlets.config import Config  # noqa: E402

del sys.modules["debugpy"]

# The settings arrive when the kernel is needed, or never.
SETTINGS = json.loads(sys.stdin.read() or sys.exit())
GATEWAY = os.dup(0)
os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
if SETTINGS["python_path"]:
    os.environ["PYTHONPATH"] = SETTINGS["python_path"]


def keep_apart():
    """Prevents this process and all that it starts from tracing other processes and sending them signals.

    The kernel that replaces this one may already run as the same user; a Landlock domain keeps the two
    apart.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("A running thread would stay outside the kernel's Landlock domain")
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number, *arguments):
        result = libc.syscall(number, *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), "Landlock does not work")
        return result

    refer, scope_signal = 1 << 13, 1 << 1
    attributes = struct.pack("QQQ", refer, 0, scope_signal)
    if call(444, None, 0, 1) < 6:  # Linux before 6.12 has no rule for signals
        attributes = struct.pack("Q", refer)
    ruleset = call(444, attributes, len(attributes), 0)
    # By default, every domain forbids moving files to other folders.
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    call(445, ruleset, 1, struct.pack("=Qi", refer, root), 0)
    call(446, ruleset, 0)
    os.close(root)
    os.close(ruleset)


if SETTINGS["apart"]:
    keep_apart()

for name, value in SETTINGS["limits"].items():
    hard = resource.getrlimit(getattr(resource, name))[1]
    # The soft limit sends a signal that says what happened; the hard limit just kills.
    grace = value + 5 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(getattr(resource, name), (min(value, grace), grace))

# Stack traces of crashes go to the gateway's stderr through a separate descriptor: the kernel's own
# stderr is forwarded by a thread, which does not survive a crash.
faulthandler.enable(os.dup(2), all_threads=False)


# Modules that code gets from the kernel, or that the kernel imports later, must not be loaded
# twice.
SHARED = {"IPython", "comm", "ipykernel", "jupyter_client", "jupyter_core"}
SHARED |= {"pygments", "tornado", "traitlets", "zmq"}


def leave_to_code(folders):
    """Forgets the modules of packages that are also installed for code."""
    names = set()
    for folder in folders:
        if os.path.basename(folder) == "site-packages" and os.path.isdir(folder):
            names.update(name.partition(".")[0] for name in os.listdir(folder))
    for module, loaded in list(sys.modules.items()):
        package = module.partition(".")[0]
        # Neither the standard library's nor ipybox's own.
        if package in names - SHARED and "-packages/" in (getattr(loaded, "__file__", None) or ""):
            del sys.modules[module]


class KernelApp(kernelapp.IPKernelApp):
    """The kernel without a connection file, startup files and configuration files."""

    def init_connection_file(self):
        self.load_connection_info(SETTINGS["connection"])

    def write_connection_file(self, **_):
        pass

    def initialize(self, argv=None):
        super().initialize(argv)
        # The gateway reads the rest of the pipe behind stderr when C code ends this process.
        with socket.socket(fileno=GATEWAY) as line:
            socket.send_fds(line, [b"."], [sys.stderr._fid])
        # The first folder is ipybox's own. While it is the only one, the modules that set up kernels are
        # imported.
        own, *others = filter(None, SETTINGS["python_path"].split(os.pathsep))
        sys.path.insert(0, own)
        for name in ("", ".check", ".process_guard"):
            importlib.import_module(f"ipybox_runtime.kernel{name}")
        sys.path[:1] = ["", own, *others]
        leave_to_code(others)
        # Python also looks for garbage at exit, which this shortens.
        gc.freeze()
        gc.enable()

    def init_iopub(self, context):
        # Code waits if the gateway does not keep up. By default, ZeroMQ silently drops messages beyond
        # a thousand, including the last one, which says that code has ended.
        context.setsockopt(zmq.XPUB_NODROP, 1)
        super().init_iopub(context)

    def init_path(self):
        pass  # without the working directory until initialize() adds it

    def init_crash_handler(self):
        # IPython's completer calls sys.excepthook, even for an interrupt. ipykernel's would write to
        # the descriptor behind stderr: that is output of the next cell.
        pass

    def load_config_file(self, *_, **__):
        pass

    def _run_startup_files(self):
        pass


if __name__ == "__main__":
    try:
        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        # Without the warning that TCP is not encrypted: it never leaves the machine.
        KernelApp.launch_instance(argv=[], config=config, log_level=logging.ERROR)
    except Exception:
        # If one of the ports that the gateway chose is in use by now, the threads of the other sockets
        # would keep the process running, and the gateway waiting.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
