"""Starts one IPython kernel, which ends with the gateway that started it.

The first argument is a JSON object of resource limits, by their names in `resource`.

While the kernel's own modules are imported, the folders of PYTHONPATH are left out: a file of the
workspace that is called like a standard module must not keep the kernel from starting.
"""

import os  # this and `sys` are there from the start: only what follows is looked for
import sys

sys.path.pop(0)  # the folder of this file
OWN = os.environ.get("PYTHONPATH", "").split(os.pathsep)
LATER = [path for path in sys.path if path in OWN]
sys.path[:] = [path for path in sys.path if path not in OWN]

import faulthandler  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import resource  # noqa: E402
import traceback  # noqa: E402

if sys.platform == "linux":
    import ctypes
    import signal

    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.environ.get("JPY_PARENT_PID") not in (None, str(os.getppid())):
        sys.exit("The gateway ended while the kernel started")

LIMITS = json.loads(sys.argv.pop(1))
for name, value in LIMITS.items():
    hard = resource.getrlimit(getattr(resource, name))[1]
    # The signal comes at the soft limit and says what happened; the hard one kills without a word.
    grace = value + 5 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(getattr(resource, name), (min(value, grace), grace))

# Where a crash happened goes to the gateway's stderr, by a descriptor of its own: what is written to
# the kernel's passes through a thread, which does not live to pass it on.
faulthandler.enable(os.dup(2), all_threads=False)

# Nobody can attach a debugger here, and looking for one is a third of the start. Code may import it.
sys.modules["debugpy"] = None
from ipykernel import debugger, kernelapp  # noqa: E402, F401

del sys.modules["debugpy"]
sys.path[:0] = LATER

if __name__ == "__main__":
    try:
        # A warning says that TCP, which here never leaves the machine, is not encrypted.
        kernelapp.launch_new_instance(log_level=logging.ERROR)
    except Exception:
        # Its ports were free when the gateway chose them. If one is not any more, the threads of its
        # other sockets would keep the process from ending, and the gateway waiting for it.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
