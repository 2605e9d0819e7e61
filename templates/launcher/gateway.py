"""Runs the Jupyter Kernel Gateway on a listening socket that it receives.

Settings come as one JSON object on stdin, so that the token is in no argument, no environment and
no file. `python -I` runs it: neither the workspace nor any configuration file has an effect.
"""

import asyncio
import collections
import ctypes
import functools
import gc
import hashlib
import importlib.machinery
import inspect
import json
import logging
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback

PR_SET_DUMPABLE = 4
MAX_LAST_WORDS = 1 << 16  # a pipe seldom holds more
MAX_PROGRAM = 1 << 22  # ours are smaller; code could leave larger ones

if sys.platform == "linux":
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # kernels must not read our memory
SETTINGS = json.load(sys.stdin)
os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)


def programs():
    """The state of our programs, if code can write to them.

    Code cannot set when a file was changed. But in a tmpfs, writing through a mapping changes no
    time, so their contents count, too.
    """
    if not SETTINGS["guards_programs"]:
        return None
    runtime = SETTINGS["kernel_env"]["PYTHONPATH"].split(os.pathsep)[0]
    found = {}
    for root in (SETTINGS["resource_dir"], runtime):
        for folder, _, names in os.walk(root):
            for path in (folder, *(os.path.join(folder, name) for name in names)):
                status = os.lstat(path)
                is_file = stat.S_ISREG(status.st_mode)  # nothing else must be opened
                found[path] = (status.st_ino, status.st_ctime_ns, is_file and digest(path))
    return found


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read(MAX_PROGRAM)).digest()


PROGRAMS = programs()


def kernel_environment(folder):
    """The whole environment of a kernel with its own folder."""
    folders = SETTINGS["kernel_folders"].items()
    own = {name: os.path.normpath(os.path.join(folder, place)) for name, place in folders}
    environment = {**SETTINGS["inherited"], **own, **SETTINGS["kernel_env"]}
    environment["IPYBOX_KERNEL_FOLDER"] = folder
    environment.update(JPY_PARENT_PID=str(os.getpid()), KERNEL_GATEWAY="1")
    if SETTINGS["door_port"] is not None:
        environment["IPYBOX_TOOL_URL"] = f"tcp://127.0.0.1:{SETTINGS['door_port']}"
    return environment


class LoadingKernel:
    """A kernel that imports its modules, and then waits for its settings. It has its own folder."""

    def __init__(self):
        os.chmod(SETTINGS["kernels_dir"], 0o700)
        self.folder = tempfile.mkdtemp(dir=SETTINGS["kernels_dir"])
        os.mkdir(f"{self.folder}/tmp")
        environment = kernel_environment(self.folder)
        self.python_path = environment.pop("PYTHONPATH", "")
        self.line, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                # -s: no modules from the home directory.
                [sys.executable, "-s", SETTINGS["kernel_script"]],
                stdin=theirs,
                env=environment,
                start_new_session=True,  # an interrupt also reaches what its code started
            )
        finally:
            theirs.close()

    def begin(self, connection):
        settings = {
            "connection": {**connection, "key": connection["key"].decode()},
            "limits": SETTINGS["kernel_limits"],
            "apart": SETTINGS["kernels_apart"],
            "python_path": self.python_path,
        }
        self.line.setblocking(False)
        data = json.dumps(settings).encode()
        try:
            written = self.line.send(data)
            self.line.shutdown(socket.SHUT_WR)
        except ConnectionError:
            return  # it has ended, which is about to be noticed
        if written != len(data):
            raise ValueError("The settings of the kernel are too long: shorten PYTHONPATH")

    def last_words(self):
        """C code's last words on stderr: it ended the kernel, which could not read them any more."""
        try:
            _, [stderr, *_], _, _ = socket.recv_fds(self.line, 1, 1)
        except (OSError, ValueError):
            return b""  # it has ended before it sent the pipe
        self.line.close()
        os.set_blocking(stderr, False)
        with open(stderr, "rb", buffering=0) as pipe:
            return pipe.read(MAX_LAST_WORDS) or b""


# The first kernel loads while this process does.
LOADING = [LoadingKernel()]

# Nothing that is imported is garbage, and looking for garbage takes a sixth of the start.
gc.disable()


class Nothing(Exception):
    """Stands in for any class, object, function and exception that is left out."""

    def __getattr__(self, name):
        return self

    def __call__(self, *_, **__):
        return self


class LeftOut:
    """Stands in for packages that serve no request of the host: pages, notebooks, events, metrics.

    Importing them is a third of this process's start, and a quarter of its memory.
    """

    NAMES = (
        "jinja2",
        "jupyter_events",
        "jupyter_server.serverapp",
        "nbformat",
        "prometheus_client",
    )

    def find_spec(self, name, *_):
        if name.startswith(self.NAMES):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, _):
        return None

    def exec_module(self, module):
        module.__getattr__ = self.attribute

    def attribute(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


sys.meta_path.insert(0, LeftOut())

from jupyter_client.provisioning import local_provisioner  # noqa: E402
from jupyter_client.session import DELIM  # noqa: E402
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel  # noqa: E402
from kernel_gateway.gatewayapp import KernelGatewayApp  # noqa: E402
from kernel_gateway.services.kernels.manager import (  # noqa: E402
    KernelGatewayIOLoopKernelManager,
    SeedingMappingKernelManager,
)
from jupyter_server.services.kernels.connection.base import (  # noqa: E402
    deserialize_msg_from_ws_v1,
    serialize_msg_to_ws_v1,
)
from jupyter_server.services.kernels.connection.channels import (  # noqa: E402
    ZMQChannelsWebsocketConnection,
)
from jupyter_server.services.kernels.websocket import KernelWebsocketHandler  # noqa: E402
from tornado.httpserver import HTTPServer  # noqa: E402
from tornado.ioloop import IOLoop  # noqa: E402
from tornado.web import Finish, RequestHandler  # noqa: E402
from traitlets.config import Config  # noqa: E402

gc.freeze()
gc.enable()

# Its own page for errors needs jinja2: instead of it, a traceback would follow a kernel's last words.
KernelWebsocketHandler.write_error = RequestHandler.write_error

KERNEL_NAME = "python3"


STRAYS_GRACE = 5.0

# Errors that mean that a process has just ended, or is another user's. Let any other error surface.
GONE = (FileNotFoundError, ProcessLookupError, PermissionError)


class OneKernelSpec(KernelSpecManager):
    """Knows one kernel, whatever kernelspecs this machine has."""

    def find_kernel_specs(self):
        return {KERNEL_NAME: SETTINGS["resource_dir"]}

    def get_kernel_spec(self, kernel_name):
        if kernel_name != KERNEL_NAME:
            raise NoSuchKernel(kernel_name)
        return KernelSpec(
            resource_dir=SETTINGS["resource_dir"],
            argv=[],  # the kernel has already been started
            display_name="Python 3",
            language="python",
        )


# Only this starts kernels, and each gets the process that it already has.
local_provisioner.launch_kernel = lambda _, process, **__: process


def oom_kills():
    """How many processes of this machine the system has killed for lack of memory, if known."""
    try:
        with open("/proc/vmstat") as file:
            return next(
                (int(line.split()[1]) for line in file if line.startswith("oom_kill ")), None
            )
    except OSError:
        return None


def running():
    """The parent of each process that has not ended, by their numbers in /proc."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except GONE:
            continue  # it has just ended
        state, parent, threads = fields[0], int(fields[1]), int(fields[17])
        if state not in b"ZX" or threads > 1:
            found[int(name)] = parent
    return found


def numbers(pid):
    """The numbers of a process: in the namespace of /proc, which may not be ours, and below it."""
    try:
        with open(f"/proc/{pid}/status") as file:
            lines = [line.split()[1:] for line in file if line.startswith("NSpid:")]
    except GONE:
        return []  # it has just ended
    return [int(number) for line in lines for number in line]


def strays(kept):
    """The processes that kernels started, except for the kernels `kept` and their processes."""
    if sys.platform != "linux":
        return  # what runs is unknown; it ends with the launcher
    parents, own = running(), int(os.readlink("/proc/self"))
    level = len(numbers(own)) - 1
    launcher = parents[own]
    ends = {launcher} | {
        pid
        for pid, parent in parents.items()
        if parent == own and kept.intersection(numbers(pid)[level : level + 1])
    }
    for pid in parents:
        above = pid
        while above not in ends and above in parents:
            above = parents[above]
        if above == launcher and pid not in (launcher, own):
            yield from numbers(pid)[level : level + 1]


# The managers whose kernels run.
LIVE = set()

START = inspect.unwrap(KernelGatewayIOLoopKernelManager._async_start_kernel)
SHUT_DOWN = inspect.unwrap(KernelGatewayIOLoopKernelManager._async_shutdown_kernel)


class KernelManager(KernelGatewayIOLoopKernelManager):
    """Starts kernels with exactly the environment that the host asked for.

    Each has its own folder. A process that outlives its kernel is inherited by the launcher, the
    subreaper, and is ended here.
    """

    kernel = None

    async def _async_launch_kernel(self, kernel_cmd, **_):
        kernel = LOADING.pop() if LOADING else LoadingKernel()
        self.kernel = kernel
        self.oom_counts = (oom_kills(),) * 2
        self.oom_counted = time.monotonic()
        LIVE.add(self)
        kernel.begin(self.get_connection_info())
        return await super()._async_launch_kernel(kernel_cmd, process=kernel.process, env={})

    def write_connection_file(self, **_):
        pass  # the kernel gets it on its stdin

    async def start_kernel(self, **options):
        await self.promptly(START(self, **options))

    async def shutdown_kernel(self, now=False, restart=False):
        await self.promptly(SHUT_DOWN(self, now, restart))

    async def promptly(self, work):
        """Does the work of the base class, without the 10 ms that only its tests need."""
        self._ready = asyncio.get_running_loop().create_future()
        try:
            await work
        except Exception as error:
            self._ready.set_exception(error)
            raise
        self._ready.set_result(None)

    async def _async_wait(self, pollinterval=0.1):
        await super()._async_wait(pollinterval=min(pollinterval, 0.001))

    async def _async_cleanup_resources(self, restart=False):
        await super()._async_cleanup_resources(restart)
        self.end_strays()

    def end_strays(self):
        """Removes what this kernel has left: processes and files.

        If that fails, this process ends, and with it all that runs below the launcher: no kernel
        may run beside what another one has left, or with programs that it has changed.
        """
        try:
            self.end_processes()
            if programs() != PROGRAMS:
                raise RuntimeError("Code has changed ipybox's programs, which would run again")
        except Exception:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(70)
        folders = {os.path.basename(other.kernel.folder) for other in LIVE}
        left = set(os.listdir(SETTINGS["kernels_dir"])) - folders
        threading.Thread(target=remove, args=(left,), daemon=True).start()

    def end_processes(self):
        LIVE.discard(self)
        kept = {
            other.provisioner.process.pid
            for other in LIVE
            if other.provisioner is not None and other.provisioner.process is not None
        }
        deadline = time.monotonic() + STRAYS_GRACE
        # A killed process may just have started another one.
        while left := list(strays(kept)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Processes left by a kernel do not end: {left}")
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # it ended meanwhile
            time.sleep(0.001)

    async def is_alive(self):
        # Called every tenth of a second. A process can take seconds to end after it was killed.
        if time.monotonic() - self.oom_counted > 5:
            self.oom_counts = (self.oom_counts[1], oom_kills())
            self.oom_counted = time.monotonic()
        return await super().is_alive()

    def ran_out_of_memory(self):
        """Whether the system has killed a process for lack of memory a few seconds ago."""
        return oom_kills() != self.oom_counts[0]


def remove(names):
    for name in names:
        shutil.rmtree(f"{SETTINGS['kernels_dir']}/{name}", ignore_errors=True)


# How many bytes of a kernel's output since its last execution began are kept for another host: this
# many from the beginning, and as many from the end.
MAX_KEPT = 8 << 20
# The memory of a part of a message beside its bytes.
PART_SIZE = 100

# The kept messages of kernels in a durable session, by the kernels' ids.
KEPT = {}


def size_of(message):
    return sum(len(part) + PART_SIZE for part in message)


def is_message(parts):
    """Whether parts are those of a message: code in the kernel can send anything."""
    return DELIM in parts and len(parts) - parts.index(DELIM) > 5


class Kept:
    """A kernel's channels, which outlive their connection, and the messages from them.

    A host that dies may have read all or nothing of what was sent to it. So the next one gets
    everything since the last execution began, even if another host has already received it.
    """

    def __init__(self):
        self.channels = {}
        self.owner = None  # the connection that has the channels
        self.begin({})

    def begin(self, request):
        self.request = request  # the header of the execution's request
        self.first, self.first_size = [], 0
        self.last, self.last_size = collections.deque(), 0
        self.others, self.others_size = collections.deque(), 0
        self.ends = {}  # of the execution, by channel
        self.lost = 0

    def add(self, channel, message):
        if not is_message(message):
            return
        size = size_of(message)
        if channel != "iopub" or message[0].endswith(b".status"):
            # Neither much output nor any later message displaces the end.
            if channel not in self.ends and size <= MAX_KEPT and self.is_end(message):
                self.ends[channel] = message
                return
            self.others.append((channel, message))
            self.others_size += size
            while self.others_size > MAX_KEPT:
                self.others_size -= size_of(self.others.popleft()[1])
            return
        if not self.last and self.first_size + size <= MAX_KEPT:
            self.first.append((channel, message))
            self.first_size += size
            return
        self.last.append((channel, message))
        self.last_size += size
        while self.last_size > MAX_KEPT:
            size = size_of(self.last.popleft()[1])
            self.last_size -= size
            self.lost += size

    def is_end(self, message):
        """Whether it is the execution's reply, or says that the kernel is idle after it."""
        try:
            header, parent, _, content = message[message.index(DELIM) + 2 :][:4]
            if json.loads(parent)["msg_id"] != self.request["msg_id"]:
                return False
            if json.loads(header)["msg_type"] == "execute_reply":
                return True
            return json.loads(content)["execution_state"] == "idle"
        except Exception:
            return False  # code can send anything

    def answered(self):
        """Forgets questions that have been answered."""
        self.others = collections.deque(kept for kept in self.others if kept[0] != "stdin")
        self.others_size = sum(size_of(message) for _, message in self.others)

    def let_go(self):
        """Continues without a connection."""
        self.owner = None
        for name, stream in self.channels.items():
            stream.on_recv(functools.partial(self.add, name))

    def close(self):
        if self.owner is None:
            for stream in self.channels.values():
                stream.close()


class KernelManagers(SeedingMappingKernelManager):
    def _kernel_manager_class_default(self):
        return "__main__.KernelManager"

    def start_buffering(self, kernel_id, session_key, channels):
        # The base class keeps any number of messages.
        kept = KEPT.get(kernel_id)
        if kept is not None and kept.channels is channels:
            kept.let_go()
        else:
            for stream in channels.values():
                stream.close()

    def remove_kernel(self, kernel_id):
        kept = KEPT.pop(kernel_id, None)
        if kept is not None:
            kept.close()
        return super().remove_kernel(kernel_id)

    def start_watching_activity(self, kernel_id):
        # The base class reads each message of a kernel a second time, only to show clients that list the
        # kernels which of them are busy.
        self._kernels[kernel_id].execution_state = "idle"

    def _handle_kernel_died(self, kernel_id):
        # Before it is forgotten: clients that learn of its end rely on that.
        manager = self.get_kernel(kernel_id)
        manager.end_strays()
        sys.stderr.buffer.write(manager.kernel.last_words())
        sys.stderr.flush()
        super()._handle_kernel_died(kernel_id)


# The most bytes that wait here for a host that does not keep up. The rest waits in the kernel, and
# eventually the code does.
MAX_UNSENT = 16 << 20


class Connection(ZMQChannelsWebsocketConnection):
    """Soon notices that a kernel's messages arrive, or never will, and holds back what exceeds the
    limit."""

    unsent = 0
    holds_back = True

    @property
    def write_message(self):
        return self.write

    def write(self, data, binary=False):
        sent = self.websocket_handler.write_message(data, binary=binary)
        self.unsent += len(data)
        if self.unsent > MAX_UNSENT and self.holds_back:
            self.channels["iopub"].stop_on_recv()
        sent.add_done_callback(functools.partial(self.wrote, len(data)))

    def wrote(self, size, sent):
        full = self.unsent > MAX_UNSENT
        self.unsent -= size
        if sent.cancelled() or sent.exception() is not None:
            return  # the host has gone
        iopub = self.channels.get("iopub")
        if full and self.unsent <= MAX_UNSENT and iopub and not iopub.closed():
            iopub.on_recv_stream(self.handle_outgoing_message)

    def connect(self):
        if not SETTINGS["durable"]:
            return super().connect()
        kept = KEPT.setdefault(self.kernel_id, Kept())
        if not kept.channels:
            connected = super().connect()
            kept.channels, kept.owner = self.channels, self
            return connected
        self.multi_kernel_manager.notify_connect(self.kernel_id)
        if kept.owner is not None:
            kept.owner.channels = {}  # its host is gone, which it has not noticed yet
        self.channels, kept.owner = kept.channels, self
        for act, event in ((self.on_kernel_restarted, "restart"), (self.on_restart_failed, "dead")):
            self.multi_kernel_manager.add_restart_callback(self.kernel_id, act, event)
        self._open_sockets.add(self)
        for stream in self.channels.values():
            stream.on_recv_stream(self.handle_outgoing_message)
        self.replay(kept.first)
        if kept.lost:
            self.report_lost(kept)
        self.replay(kept.last)
        self.replay(kept.others)
        self.replay(kept.ends.items())
        connected = asyncio.get_running_loop().create_future()
        connected.set_result(None)
        return connected

    def replay(self, messages):
        for channel, message in messages:
            try:
                super().handle_outgoing_message(channel, message)
            except Exception:
                # Code sent parts that are not a message. Others must still arrive.
                self.log.debug("Cannot pass on what a kernel sent", exc_info=True)

    def report_lost(self, kept):
        text = f"\n[ipybox: {kept.lost} bytes of output were lost when the host went away]\n"
        content = {"name": "stderr", "text": text}
        message = self.session.msg("stream", content, parent=kept.request)
        data = serialize_msg_to_ws_v1(message, "iopub", self.session.pack)
        self.write_message(data, binary=True)

    def handle_incoming_message(self, data):
        kept = KEPT.get(self.kernel_id)
        if kept is not None:
            channel, message = deserialize_msg_from_ws_v1(data)
            if channel == "stdin":
                kept.answered()
            elif channel == "shell":
                header, content = json.loads(message[0]), json.loads(message[3])
                if header["msg_type"] == "execute_request" and not content["silent"]:
                    kept.begin(header)
        super().handle_incoming_message(data)

    def handle_outgoing_message(self, stream, message):
        kept = KEPT.get(self.kernel_id)
        if kept is not None:
            kept.add(stream.channel, message)
        super().handle_outgoing_message(stream, message)

    async def prepare(self):
        # The base class waits a minute for a kernel that ended while it started.
        preparing = asyncio.ensure_future(super().prepare())
        while not preparing.done():
            await asyncio.wait([preparing], timeout=0.1)
            if not preparing.done() and not await self.kernel_manager.is_alive():
                preparing.cancel()
                self.websocket_handler.set_status(410)
                raise Finish
        await preparing

    def nudge(self):
        # The base class asks a kernel for a sign of life every half second, and loses a first one
        # that comes before its subscription: a new kernel would often be late by that time.
        connected = super().nudge()
        channel = self.kernel_manager.connect_control()

        def ask():
            if connected.done():
                channel.close()
                return
            self.session.send(channel, "kernel_info_request")
            IOLoop.current().call_later(0.025, ask)

        ask()
        return connected

    def on_restart_failed(self):
        # Like the base class, which does not report how the kernel ended.
        iopub = self.channels.get("iopub")
        if iopub and not iopub.closed():
            self.holds_back = False
            iopub.on_recv_stream(self.handle_outgoing_message)
            iopub.flush()  # the kernel's remaining output comes first
        process = getattr(self.kernel_manager.provisioner, "process", None)
        content = {
            "execution_state": "dead",
            "returncode": None if process is None else process.returncode,
            "oom_killer": self.kernel_manager.ran_out_of_memory(),
        }
        message = self.session.msg("status", content)
        data = serialize_msg_to_ws_v1(message, "iopub", self.session.pack)
        self.write_message(data, binary=True)


class Gateway(KernelGatewayApp):
    """The gateway without configuration files, on the given socket."""

    async def _stop(self):
        await self.personality.shutdown()  # the kernels, which may have files to write
        sys.stderr.flush()
        os._exit(0)  # nothing else is lost, and Python takes long to exit

    def load_config_file(self, *args, **kwargs):
        pass  # it would first look in the working directory

    def migrate_config(self):
        pass

    def init_webapp(self):
        super().init_webapp()
        self.web_app.settings["websocket_max_message_size"] = 1 << 30

    def init_http_server(self):
        listener = socket.socket(fileno=SETTINGS["listen_fd"])
        listener.setblocking(False)
        listener.set_inheritable(False)
        self.port = listener.getsockname()[1]
        self.http_server = HTTPServer(self.web_app)
        self.http_server.add_socket(listener)


def main():
    config = Config()
    config.ZMQChannelsWebsocketConnection.limit_rate = False
    config.MappingKernelManager.cull_idle_timeout = 0
    # The host replaces a kernel that died, because only it can set up a new one. It is notified
    # soon.
    config.KernelRestarter.restart_limit = 0
    config.KernelRestarter.time_to_dead = 0.1
    config.KernelManager.shutdown_wait_time = 1
    # Both ends are on this machine, and either notices the other's end. A host that is busy for a
    # long time, such as one that writes to a pager, must not lose its kernel.
    config.KernelGatewayApp.ws_ping_interval = 0
    # A message informs the host of a kernel that died, or that is deleted afterwards. A log here
    # would only bury the kernel's own words.
    logging.getLogger("tornado").setLevel(logging.ERROR)
    Gateway.launch_instance(
        argv=[],
        config=config,
        auth_token=SETTINGS["token"],
        cookie_secret=secrets.token_bytes(32),
        default_kernel_name=KERNEL_NAME,
        force_kernel_name=KERNEL_NAME,
        kernel_manager_class=KernelManagers,
        kernel_spec_manager_class=OneKernelSpec,
        kernel_websocket_connection_class=Connection,
        log_level="ERROR",
    )


if __name__ == "__main__":
    main()
