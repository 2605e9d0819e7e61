"""Starts a server and forwards TCP streams between it and the host over stdin and stdout.

This is the first process inside the sandbox. It uses only the standard library and runs with `python -I
-S`, so that it imports nothing from the workspace.

A frame is `type u8, stream u32, length u32, payload`, big-endian. The host opens streams with even
numbers, which lead to the server, or to a program from START that their OPEN names. Connections to the
door open streams with odd numbers, which lead to one fixed address on the host. Each direction of a
stream has a window: at most WINDOW bytes may be in flight that the other side has not taken yet.

The server gets a listening socket, and one JSON object on its stdin. When our stdin ends, however the
host ended, we end the server and everything it started.

The supervisor of a durable session announces when a host is gone (DETACH) and when another one
attaches (ATTACH), both with a number that only grows. In between, there are no streams, and
connections to the door wait. A READY with that number starts over.
"""

import ctypes
import errno
import fcntl
import json
import os
import resource
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import time

OPEN, DATA, EOF, RST, WIN, READY, START, EXIT, DETACH, ATTACH = range(10)
BEAT = 14  # a heartbeat, which is answered with another one
HEADER = struct.Struct(">BII")
CREDIT = struct.Struct(">I")

WINDOW = 1 << 18
CHUNK = 1 << 16
MAX_PAYLOAD = 1 << 16
MAX_START = 1 << 22
MAX_STREAMS = 512
CONGESTED = 1 << 20  # bytes waiting for the host beyond which no socket is read

STOP_GRACE = 3.0
FLUSH_GRACE = 1.0
SWEEP_GRACE = 2.0

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36

# Loaded by path: nothing is imported by name, neither from the workspace nor from this folder.
CHECK = runpy.run_path(f"{os.path.dirname(os.path.abspath(__file__))}/check.py")

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
QUICKACK = getattr(socket, "TCP_QUICKACK", None)


class LinkError(Exception):
    """The host violated the protocol."""


def prctl(option, value):
    """Calls Linux's prctl(2); does nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def take_descriptors():
    """Takes stdin and stdout away from children, and closes all inherited descriptors.

    Children read nothing from the link, and print to stderr.
    """
    link_in = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    link_out = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(2, 1)
    CHECK["close_inherited"](link_in, link_out)
    for fd in (link_in, link_out):
        os.set_blocking(fd, False)
        try:
            fcntl.fcntl(fd, 1031, 1 << 20)  # F_SETPIPE_SZ: fewer wake-ups for bulk output
        except OSError:
            pass  # not a pipe, or not allowed: only slower
    return link_in, link_out


def harden():
    """Protects this process's memory and descriptors from other processes of this user."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("500")  # if memory runs out, kill this before the user's programs
    except OSError:
        pass  # not Linux, or in a sandbox that has done this
    prctl(PR_SET_DUMPABLE, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1)


class Stream:
    """One connection on this side and its state on the link."""

    def __init__(self, sid, sock, connecting, process=None):
        self.sid = sid
        self.sock = sock
        self.connecting = connecting
        self.process = process  # the program that was started for it, and ends with it
        self.credit = WINDOW  # how much we may still send
        self.window = WINDOW  # how much the host may still send
        self.taken = 0  # how much of it was taken and not yet acknowledged
        self.backlog = bytearray()  # what the socket has not accepted yet
        self.ended_by_us = False
        self.ended_by_host = False


class Launcher:
    """The event loop: one thread, no blocking calls."""

    def __init__(self, link_in, link_out, report):
        self.link_in = link_in
        self.report = report
        self.link_out = link_out
        self.selector = selectors.DefaultSelector()
        self.streams = {}
        self.last_host_sid = 0
        self.next_sid = 1
        self.inbox = bytearray()
        self.buffer = memoryview(bytearray(1 << 18))  # for one read, until the next one
        self.outbox = bytearray()
        self.congested = False
        self.gateway = None  # the address that host-opened streams lead to
        self.door = None
        self.server = None
        self.programs = {}  # that streams may start, by name
        self.exit = None
        self.stopping = False
        self.wake_in, self.wake_out = os.pipe()
        for fd in (self.wake_in, self.wake_out):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self.wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # to wake the loop
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, self.on_stop_signal)
        self.selector.register(self.link_in, READ, self.on_link)
        self.selector.register(self.wake_in, READ, self.on_wake)

    def run(self):
        """Runs until the host closes the link or the server exits; returns our exit code."""
        while not self.stopping and self.exit is None:
            for key, events in self.selector.select():
                key.data(events)
            self.flush()
        self.stop_server()
        return self.exit[0] if self.exit is not None and self.exit[0] is not None else 0

    # --- link ---------------------------------------------------------------------------------

    def send(self, kind, sid, payload=b""):
        self.outbox += HEADER.pack(kind, sid, len(payload)) + payload

    def send_data(self, stream, data):
        """Sends data of a socket, immediately if nothing is queued. `data` is copied if it must wait."""
        header = HEADER.pack(DATA, stream.sid, len(data))
        written = 0
        if not self.outbox:
            try:
                written = os.writev(self.link_out, (header, data))
            except OSError:
                pass  # the pipe is full, or flush() will fail, too
        if written < HEADER.size + len(data):
            self.outbox += (header + data)[written:]

    def flush(self):
        """Writes as much as the pipe accepts."""
        outbox = self.outbox
        while outbox:
            try:
                del outbox[: os.write(self.link_out, outbox)]
            except BlockingIOError:
                break
            except OSError:  # the host is gone, as the end of stdin shows, too
                self.stopping = True
                outbox.clear()
                return
        self.register(self.link_out, WRITE if outbox else 0, lambda _: None)
        if (len(outbox) > CONGESTED) != self.congested:
            self.congested = not self.congested
            for stream in self.streams.values():
                self.watch(stream)

    def on_link(self, _):
        try:
            end = os.readv(self.link_in, (self.buffer,))
        except BlockingIOError:
            return
        if end == 0:
            self.stopping = True
            return
        at, view = 0, self.buffer
        if self.inbox:
            self.inbox += view[:end]
            view = memoryview(bytes(self.inbox))
            end = len(view)
            self.inbox.clear()
        while end - at >= HEADER.size:
            kind, sid, length = HEADER.unpack_from(view, at)
            if length > (MAX_START if kind == START else MAX_PAYLOAD):
                raise LinkError(f"a frame of {length} bytes")
            if end - at - HEADER.size < length:
                break
            at += HEADER.size
            self.on_frame(kind, sid, view[at : at + length])
            at += length
        if at < end:
            self.inbox += view[at:end]

    def on_frame(self, kind, sid, payload):
        if kind == START:
            if self.server is not None:
                raise LinkError("a second START")
            self.start_server(json.loads(bytes(payload)))
            return
        if kind == BEAT:
            self.send(BEAT, 0)
            return
        if kind == DETACH:
            self.detach()
            return
        if kind == ATTACH:
            self.watch_door()
            self.send(READY, sid, self.report)
            return
        if kind == OPEN:
            if sid % 2 or sid <= self.last_host_sid or self.gateway is None:
                raise LinkError(f"OPEN of stream {sid}")
            self.last_host_sid = sid
            if len(self.streams) >= MAX_STREAMS:
                self.send(RST, sid)
            elif len(payload):
                self.start_program(sid, self.programs[bytes(payload).decode()])
            else:
                self.dial(sid)
            return
        stream = self.streams.get(sid)
        if stream is None:
            known = sid < self.next_sid if sid % 2 else sid <= self.last_host_sid
            if not known or kind not in (DATA, EOF, RST, WIN):
                raise LinkError(f"frame {kind} for stream {sid}")
            return  # it was in flight when we closed the stream
        if kind == DATA:
            stream.window -= len(payload)
            if stream.window < 0 or stream.ended_by_host:
                raise LinkError(f"more data for stream {sid} than it was given credit for")
            self.deliver(stream, payload)
        elif kind == EOF:
            stream.ended_by_host = True
            self.drain(stream)
        elif kind == WIN:
            stream.credit += CREDIT.unpack(payload)[0]
            if stream.credit > WINDOW:
                raise LinkError(f"too much credit for stream {sid}")
            self.watch(stream)
        elif kind == RST:
            self.close(stream, abort=True)
        else:
            raise LinkError(f"frame {kind} for stream {sid}")

    # --- streams ------------------------------------------------------------------------------

    def dial(self, sid):
        """Connects a stream of the host to the server."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        failed = sock.connect_ex(self.gateway)
        if failed not in (0, errno.EINPROGRESS):
            sock.close()
            self.send(RST, sid)
            return
        self.add(Stream(sid, sock, connecting=failed != 0))

    def start_program(self, sid, argv):
        """Starts a program whose stdin and stdout are a stream of the host."""
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
                argv, cwd="/", env={}, stdin=theirs, stdout=theirs, preexec_fn=end_with_us()
            )
        except OSError as error:
            print(f"Cannot start {argv[0]}: {error.strerror}", file=sys.stderr)
            ours.close()
            self.send(RST, sid)
            return
        finally:
            theirs.close()
        ours.setblocking(False)
        self.add(Stream(sid, ours, connecting=False, process=process))

    def detach(self):
        """Drops the streams of a host that is gone."""
        if self.door is not None:
            self.selector.unregister(self.door)
        for stream in list(self.streams.values()):
            self.close(stream, abort=True)
        self.last_host_sid = 0
        self.next_sid = 1

    def watch_door(self):
        if self.door is not None:
            self.selector.register(self.door, READ, self.on_door)

    def on_door(self, _):
        """Forwards connections to the door to the host."""
        while True:
            try:
                sock, _ = self.door.accept()
            except OSError:
                return
            if len(self.streams) >= MAX_STREAMS:
                sock.close()
                continue
            sock.setblocking(False)
            sid = self.next_sid
            self.next_sid += 2
            self.send(OPEN, sid)
            self.add(Stream(sid, sock, connecting=False))

    def add(self, stream):
        if stream.process is None:
            stream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.quick_ack(stream)
        self.streams[stream.sid] = stream
        self.watch(stream)

    def quick_ack(self, stream):
        # Delayed acknowledgements and Nagle's algorithm in the server would add 40 ms to every
        # exchange. The kernel resets this option, so it is set again after each read.
        if QUICKACK is not None and stream.sid % 2 == 0 and stream.process is None:
            stream.sock.setsockopt(socket.IPPROTO_TCP, QUICKACK, 1)

    def watch(self, stream):
        """Registers for exactly those events that can be handled."""
        events = 0
        if stream.connecting:
            events = WRITE
        else:
            if stream.credit > 0 and not stream.ended_by_us and not self.congested:
                events |= READ
            if stream.backlog:
                events |= WRITE
        self.register(stream.sock, events, lambda got: self.on_socket(stream, got))

    def register(self, file, events, act=None):
        known = self.selector.get_map().get(file)
        if known is None and events:
            self.selector.register(file, events, act)
        elif known is not None and not events:
            self.selector.unregister(file)
        elif known is not None and known.events != events:
            self.selector.modify(file, events, act)

    def on_socket(self, stream, events):
        if self.streams.get(stream.sid) is not stream:
            return  # closed by an earlier event in this round
        if events & WRITE:
            if stream.connecting:
                if stream.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    self.reset(stream)
                    return
                stream.connecting = False
                self.quick_ack(stream)
            self.drain(stream)
            if self.streams.get(stream.sid) is not stream:
                return
        if events & READ:
            self.read(stream)
        else:
            self.watch(stream)

    def read(self, stream):
        try:
            count = stream.sock.recv_into(self.buffer, min(CHUNK, stream.credit))
        except BlockingIOError:
            return
        except OSError:
            self.reset(stream)
            return
        if count:
            self.quick_ack(stream)
            stream.credit -= count
            self.send_data(stream, self.buffer[:count])
        else:
            stream.ended_by_us = True
            self.send(EOF, stream.sid)
            if self.close_if_ended(stream):
                return
        self.watch(stream)

    def deliver(self, stream, payload):
        """Writes the host's bytes to the socket, and queues what it does not accept yet."""
        if not stream.backlog and not stream.connecting:
            try:
                sent = stream.sock.send(payload)
            except BlockingIOError:
                sent = 0
            except OSError:
                self.reset(stream)
                return
            self.took(stream, sent)
            payload = payload[sent:]
        if len(payload) > 0:
            stream.backlog += payload
            self.watch(stream)

    def drain(self, stream):
        backlog = stream.backlog
        while backlog and not stream.connecting:
            try:
                sent = stream.sock.send(backlog)
            except BlockingIOError:
                break
            except OSError:
                self.reset(stream)
                return
            self.took(stream, sent)
            del backlog[:sent]
        if stream.ended_by_host and not backlog and not stream.connecting:
            try:
                stream.sock.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the peer has already closed, as reading will show
            if self.close_if_ended(stream):
                return
        self.watch(stream)

    def took(self, stream, count):
        stream.taken += count
        if stream.taken >= WINDOW // 4:
            self.send(WIN, stream.sid, CREDIT.pack(stream.taken))
            stream.window += stream.taken
            stream.taken = 0

    def close_if_ended(self, stream):
        if stream.ended_by_us and stream.ended_by_host and not stream.backlog:
            self.close(stream)
            return True
        return False

    def reset(self, stream):
        self.send(RST, stream.sid)
        self.close(stream, abort=True)

    def close(self, stream, abort=False):
        del self.streams[stream.sid]
        self.register(stream.sock, 0)
        if stream.process is not None and stream.process.returncode is None:
            stream.process.kill()
        if abort and stream.process is None:
            linger = struct.pack("ii", 1, 0)
            stream.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        stream.sock.close()

    # --- server -------------------------------------------------------------------------------

    def start_server(self, spec):
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("127.0.0.1", 0))
        # Accepted sockets inherit it on Linux: a server that never sets it has no Nagle stall.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.listen(128)
        self.gateway = listener.getsockname()
        self.programs = spec["programs"]
        facts = {"listen_fd": listener.fileno(), "door_port": None}
        if spec["door"]:
            door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            door.bind(("127.0.0.1", 0))
            door.listen(128)
            door.setblocking(False)
            facts["door_port"] = door.getsockname()[1]
            self.door = door
            self.watch_door()
        facts["inherited"] = {k: os.environ[k] for k in spec["inherit"] if k in os.environ}
        for name, value in spec["limits"].items():
            CHECK["limit"](getattr(resource, name), value)
        try:
            self.server = subprocess.Popen(
                spec["argv"],
                cwd=spec["cwd"],
                env=spec["env"],
                stdin=subprocess.PIPE,
                stdout=2,
                pass_fds=[listener.fileno()],
                preexec_fn=end_with_us(),
            )
        except OSError as error:
            print(f"Cannot start {spec['argv'][0]}: {error.strerror}", file=sys.stderr)
            self.report_exit(127, None)
            return
        listener.close()
        try:
            with self.server.stdin as stdin:
                stdin.write(json.dumps({**spec["input"], **facts}).encode())
        except BrokenPipeError:
            pass  # it has exited, as the loop will notice

    def on_stop_signal(self, *_):
        self.stopping = True

    def on_wake(self, _):
        try:
            os.read(self.wake_in, 4096)
        except BlockingIOError:
            pass
        self.reap()

    def reap(self):
        """Reaps every child, including orphans of the server."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            for stream in self.streams.values():
                if stream.process is not None and stream.process.pid == pid:
                    stream.process.returncode = code
            if self.server is not None and pid == self.server.pid:
                self.server.returncode = code
                self.report_exit(*((code, None) if code >= 0 else (None, -code)))

    def report_exit(self, code, number):
        self.exit = (code, number)
        name = None if number is None else signal.Signals(number).name
        self.send(EXIT, 0, json.dumps({"code": code, "signal": name}).encode())

    def stop_server(self):
        """Ends the server and everything it started, and sends the last frames to the host."""
        if self.server is not None and self.exit is None:
            # Popen's own methods would reap it before reap() can.
            os.kill(self.server.pid, signal.SIGTERM)
            self.wait_until(lambda: self.exit is not None, STOP_GRACE)
            if self.exit is None:
                os.kill(self.server.pid, signal.SIGKILL)
                self.wait_until(lambda: self.exit is not None, STOP_GRACE)
        self.sweep()
        deadline = time.monotonic() + FLUSH_GRACE
        self.flush()
        while self.outbox and time.monotonic() < deadline:
            self.selector.select(deadline - time.monotonic())
            self.flush()

    def wait_until(self, done, seconds):
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as waking:
            waking.register(self.wake_in, READ)
            self.reap()
            while not done() and (left := deadline - time.monotonic()) > 0:
                if waking.select(left):
                    self.on_wake(READ)

    def sweep(self):
        """Kills what is left: as the subreaper, we are the parent of all orphans."""
        deadline = time.monotonic() + SWEEP_GRACE
        while (children := own_children()) and time.monotonic() < deadline:
            for pid in children:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # it has ended
            self.wait_until(lambda gone=children: not set(gone) & set(own_children()), 0.5)


def end_with_us():
    """Returns a function that a child runs before its program, so that it does not outlive us."""
    parent = os.getpid()

    def before_exec():
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


def own_children():
    try:
        with open("/proc/thread-self/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []  # not available here; remaining processes end with their own parents


def main():
    wall = CHECK["wall_of_this"]()
    link_in, link_out = take_descriptors()
    harden()
    probe = json.loads(sys.argv[1])
    # Without a sandbox, the check would only start the programs that wait behind the host's sockets.
    report = CHECK["check"](probe, wall) if probe["sandboxed"] else CHECK["facts"]()
    if probe["sandboxed"]:
        CHECK["confine_sockets"]()
    report = json.dumps(report).encode()
    launcher = Launcher(link_in, link_out, report)
    launcher.send(READY, 0, report)
    launcher.flush()
    try:
        code = launcher.run()
    except (LinkError, ValueError, KeyError, struct.error) as error:
        print(f"The link is broken: {error}", file=sys.stderr)
        launcher.stop_server()
        code = 70
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
