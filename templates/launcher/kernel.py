"""Starts one IPython kernel, which ends with the gateway that started it.

Its settings come as one JSON object on stdin: a file with the key of its connection could be read by
the code of another kernel.

The folders of PYTHONPATH come with them and count once the kernel's own modules are imported, and those
that set it up: a file of the workspace that is called like one of them must not keep the kernel from
starting, or take its place. For the same reason, and as the code of a kernel before may have written
them, nothing of the home directory or of the workspace runs by itself in a new kernel.
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
import traceback

if sys.platform == "linux":
    import ctypes
    import signal
    import struct

    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.environ.get("JPY_PARENT_PID") not in (None, str(os.getppid())):
        sys.exit("The gateway ended while the kernel was starting")

gc.disable()  # until it is set up: none of that is garbage, and looking for some takes its time

# Nobody can attach a debugger here, and looking for one is a third of the start. Code may import it.
sys.modules["debugpy"] = None
import zmq  # noqa: E402
from ipykernel import debugger, kernelapp  # noqa: E402, F401
from traitlets.config import Config  # noqa: E402

del sys.modules["debugpy"]

# It is told when it is needed, or never.
SETTINGS = json.loads(sys.stdin.read() or sys.exit())
os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
if SETTINGS["python_path"]:
    os.environ["PYTHONPATH"] = SETTINGS["python_path"]


def keep_apart():
    """Keeps this process and all that it starts from tracing others and from sending them signals.

    The kernel that replaces this one may run already, as the same user: a Landlock domain is what
    keeps the two apart.
    """
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("A thread that runs already would stay outside of the kernel's domain")
    libc = ctypes.CDLL(None, use_errno=True)

    def call(number, *arguments):
        result = libc.syscall(number, *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), "Landlock does not work")
        return result

    refer, scope_signal = 1 << 13, 1 << 1
    attributes = struct.pack("QQQ", refer, 0, scope_signal)
    if call(444, None, 0, 1) < 6:  # a Linux before 6.12 does not know of signals
        attributes = struct.pack("Q", refer)
    ruleset = call(444, attributes, len(attributes), 0)
    # Every domain refuses to move files to other folders, unless it is told that this is fine.
    root = os.open("/", os.O_PATH | os.O_CLOEXEC)
    call(445, ruleset, 1, struct.pack("=Qi", refer, root), 0)
    call(446, ruleset, 0)
    os.close(root)
    os.close(ruleset)


if SETTINGS["apart"]:
    keep_apart()

for name, value in SETTINGS["limits"].items():
    hard = resource.getrlimit(getattr(resource, name))[1]
    # The signal comes at the soft limit and says what happened; the hard one kills without a word.
    grace = value + 5 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(getattr(resource, name), (min(value, grace), grace))

# Where a crash happened goes to the gateway's stderr, by a descriptor of its own: what is written to
# the kernel's passes through a thread, which does not live to pass it on.
faulthandler.enable(os.dup(2), all_threads=False)


class KernelApp(kernelapp.IPKernelApp):
    """The kernel without a file of its connection, and without files that it would run or obey."""

    def init_connection_file(self):
        self.load_connection_info(SETTINGS["connection"])

    def write_connection_file(self, **_):
        pass

    def initialize(self, argv=None):
        super().initialize(argv)
        # The first folder is ipybox's own. What sets kernels up is imported while it is the only one.
        own, *others = filter(None, SETTINGS["python_path"].split(os.pathsep))
        sys.path.insert(0, own)
        for name in ("", ".process_guard"):
            importlib.import_module(f"ipybox_runtime.kernel{name}")
        sys.path[:1] = ["", own, *others]
        # Python looks for garbage when it ends, too: this is most of what that takes.
        gc.freeze()
        gc.enable()

    def init_iopub(self, context):
        # Code waits for a gateway that does not keep up. By default ZeroMQ drops what is on top of a
        # thousand messages, without a word, and then also the last one, which says that code has ended.
        context.setsockopt(zmq.XPUB_NODROP, 1)
        super().init_iopub(context)

    def init_path(self):
        pass  # the working directory is left out of it until then, too

    def load_config_file(self, *_, **__):
        pass

    def _run_startup_files(self):
        pass


if __name__ == "__main__":
    try:
        # A warning says that TCP, which here never leaves the machine, is not encrypted.
        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        KernelApp.launch_instance(argv=[], config=config, log_level=logging.ERROR)
    except Exception:
        # Its ports were free when the gateway chose them. If one is not any more, the threads of its
        # other sockets would keep the process from ending, and the gateway waiting for it.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
