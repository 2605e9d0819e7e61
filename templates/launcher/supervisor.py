"""Keeps a durable session running while its host is away.

It runs outside the sandbox as the user, with only the standard library (`python -I -S`). It starts the
command that the host would start, forwards the frames of `launcher.py` between that command and the
host, and lets one host at a time attach on a Unix socket in a folder that only the user can open.

Its settings come as one JSON object on stdin, so that the secret is in no argument and no
environment. When no host was attached for too long, the session is too old, the command exits, or a
host requests it, it ends the command and removes what the session leaves: processes, folders,
records, the socket.

If the launcher is elsewhere, another supervisor runs beside it, which `boot.py` becomes. Its host
is the supervisor here, through a command that may be cut at any byte: see `attach.py`. Both number
the frames, and keep those that the other has not acknowledged, so that neither the launcher nor the
host here notices.
"""

import collections
import ctypes
import fcntl
import hmac
import json
import os
import re
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

PROTOCOL = 1

# Frames of the link; the launcher and the host have the same numbers.
OPEN, DATA, EOF, RST, WIN, READY, START, EXIT, DETACH, ATTACH = range(10)
# Frames between the host and this process.
GREETING, HELLO, WELCOME, REFUSED, BEAT, END, KEEP, STDERR = range(10, 18)
# How many frames were taken, between two supervisors; notes for people, for the host.
ACK, NOTE = 18, 19

FROM_HOST = {OPEN, DATA, EOF, RST, WIN, START}
FROM_LAUNCHER = {OPEN, DATA, EOF, RST, WIN, READY, EXIT}

HEADER = struct.Struct(">BII")
MAX_PAYLOAD = 1 << 16
MAX_START = 1 << 22
CONGESTED = 1 << 20
CHUNK = 1 << 18
MAX_STDERR = 1 << 14
MAX_WAITING = 8  # connections that have not shown the secret

BEAT_SECONDS = 15
DEAD_SECONDS = 45
HELLO_SECONDS = 10
FIRST_HOST_SECONDS = 120  # a host that dies while it starts a session must not leave it behind
EXIT_SECONDS = 20  # the grace periods of a launcher are shorter
KILL_SECONDS = 2
REMOVE_SECONDS = 600
LOOK_SECONDS = 20  # how often to check that the record still exists
MAX_SLEEP_SECONDS = 3600

# For the command that leads elsewhere.
WINDOW = 1 << 22  # bytes without acknowledgement beyond which no more are read
ACK_EVERY = 1 << 16
FIRST_DELAY = 0.1
MAX_DELAY = 15
CONNECT_SECONDS = 60
WORDS_SECONDS = 0.5  # to say why it exits
END_SECONDS = 10  # to connect again, so that the end can be requested there
STOP_SECONDS = 5

PR_SET_DUMPABLE = 4

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Broken(Exception):
    """The other side violated the protocol."""


# The errors of a malformed frame.
MALFORMED = (Broken, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def frame(kind, sid=0, payload=b""):
    return HEADER.pack(kind, sid, len(payload)) + payload


def message(kind, **content):
    return frame(kind, 0, json.dumps(content).encode())


def frames(inbox, allowed):
    """Takes complete frames out of the inbox, one by one."""
    at, end = 0, len(inbox)
    try:
        while end - at >= HEADER.size:
            kind, sid, length = HEADER.unpack_from(inbox, at)
            if kind not in allowed or length > (MAX_START if kind == START else MAX_PAYLOAD):
                raise Broken(f"a frame of type {kind} with {length} bytes")
            begin, stop = at, at + HEADER.size + length
            if stop > end:
                return
            at = stop
            yield kind, sid, bytes(inbox[begin:stop])
    finally:
        del inbox[:at]


def write(outbox, send):
    """Sends as much as the other side accepts. Returns whether it is still there."""
    while outbox:
        try:
            del outbox[: send(outbox)]
        except BlockingIOError:
            break
        except OSError:
            return False
    return True


class Host:
    """A connection at the socket."""

    def __init__(self, sock):
        self.sock = sock
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.heard = time.monotonic()

    def send(self, data):
        self.outbox += data


class Numbered:
    """Frames to the other side and from it, which outlive the connections that carry them."""

    def __init__(self):
        self.kept = collections.deque()  # sent, and not yet acknowledged
        self.size = 0
        self.acked = 0  # how many the other side has taken
        self.taken = 0  # how many of its frames were taken
        self.unacked = 0  # bytes of those that were not acknowledged

    def keep(self, whole):
        self.kept.append(whole)
        self.size += len(whole)

    def ack(self, count):
        """Forgets the frames that the other side has taken."""
        if type(count) is not int or not 0 <= count - self.acked <= len(self.kept):
            raise Broken(f"that it has taken {count!r} frames"[:100])
        for _ in range(count - self.acked):
            self.size -= len(self.kept.popleft())
        self.acked = count

    def take(self, whole):
        """Counts a frame of the other side. Returns whether to acknowledge."""
        self.taken += 1
        self.unacked += len(whole)
        return self.unacked >= ACK_EVERY

    def acknowledgement(self):
        """Returns the frame, and counts anew."""
        self.unacked = 0
        return message(ACK, taken=self.taken)


class Supervisor:
    """The event loop: one thread, no blocking calls before the end."""

    ACCEPTS = FROM_HOST | {BEAT, END, KEEP}  # from the host that is attached
    farewell = None  # the last message to hosts

    def __init__(self, spec, listener):
        self.spec = spec
        self.listener = listener
        self.selector = selectors.DefaultSelector()
        self.started = time.monotonic()
        self.alone_since = self.looked = self.started
        self.epoch = 0
        self.resets = 0  # how many times a host has left
        self.is_broken = False  # the launcher violated the protocol, and is ignored
        self.awaits_ready = False  # frames from before the last reset are dropped
        self.kept = None  # the host's state, for the next one
        self.kept_at = None  # since when, while the host that sent it is attached
        self.held = 0  # how long that host stayed attached after sending it
        self.folders = []  # control groups
        self.held_back = True  # the command waits until it is in its control group
        self.host = None
        self.strangers = set()
        self.refused = set()  # connections to which the refusal is still to be sent
        self.enders = set()  # connections that wait for the end
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.stderr = b""
        self.process = None
        self.over = False
        self.end_requested = False
        self.exit = None
        self.ending = None  # since when, and whether it was requested
        self.wake_in, wake_out = os.pipe()
        for fd in (self.wake_in, wake_out):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.on_term)  # which wakes the loop, too
        for name in (signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        self.selector.register(self.wake_in, READ, self.on_wake)
        self.selector.register(listener, READ, self.on_listener)
        self.start()

    def start(self):
        """Starts the command, which waits until its control group is set up."""
        self.launch(["/bin/sh", "-c", 'read -r _ && exec "$@"', "sh", *self.spec["argv"]])

    def launch(self, argv):
        self.process = subprocess.Popen(
            argv,
            cwd=self.spec["cwd"],
            env=self.spec["env"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            close_fds=False,
            start_new_session=True,
            preexec_fn=self.prepare,
        )
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            os.set_blocking(pipe.fileno(), False)
        self.selector.register(self.process.stderr, READ, self.on_stderr)

    def prepare(self):
        """Runs in the command's process: signals that are ignored here must not be ignored where
        code runs."""
        for name in (signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_DFL)

    @property
    def pid(self):
        return self.process.pid

    def run(self):
        try:
            while not self.over:
                for key, events in self.selector.select(self.timeout()):
                    if not self.over:
                        key.data(events)
                self.check_times()
                if not self.over:
                    self.flush()
                    self.watch()
        finally:
            # Without this process, nothing would end the session.
            if not self.over:
                self.kill()

    # --- time ---------------------------------------------------------------------------------

    def deadlines(self):
        """The times at which to act, with the actions."""
        if self.ending is not None:
            yield self.ending[0] + EXIT_SECONDS, self.kill
            return
        yield self.started + self.spec["max_seconds"], lambda: self.end_for("time")
        yield self.looked + LOOK_SECONDS, self.look
        if self.host is None:
            seconds = self.spec["idle_seconds"]
            if self.epoch == 0:
                seconds = min(seconds, FIRST_HOST_SECONDS)
            yield self.alone_since + seconds, lambda: self.end(asked=True)
        else:
            host = self.host
            yield host.heard + DEAD_SECONDS, lambda: self.lose(host)
            yield self.beat + BEAT_SECONDS, self.send_beat
        for guest in self.strangers | self.refused:
            yield guest.heard + HELLO_SECONDS, lambda guest=guest: self.lose(guest)

    def timeout(self):
        """How long to wait; the system accepts at most 24 days."""
        seconds = min(when for when, _ in self.deadlines()) - time.monotonic()
        return max(0, min(seconds, MAX_SLEEP_SECONDS))

    def check_times(self):
        now = time.monotonic()
        for act in [act for when, act in self.deadlines() if when <= now]:
            if not self.over:
                act()

    def end_for(self, why):
        """Ends the session, and gives the host the reason."""
        if self.host is not None:
            self.host.send(message(REFUSED, why=why, protocol=PROTOCOL))
        self.end(asked=True)

    def look(self):
        """Ends the session if its record was removed, because no host could find it."""
        self.looked = time.monotonic()
        if not os.path.lexists(f"{self.spec['folder']}/record.json"):
            self.end_for("ended")

    def send_beat(self):
        self.beat = time.monotonic()
        if self.host is not None:
            self.host.send(frame(BEAT))

    # --- the launcher -------------------------------------------------------------------------

    def to_launcher(self, data):
        self.outbox += data

    def on_launcher(self, _):
        data = self.read(self.process.stdout.fileno())
        if data is None:
            return
        if not data:
            self.register(self.process.stdout, 0)
            self.process.stdout.close()
            self.end(asked=False)
            return
        if self.is_broken:
            return
        self.inbox += data
        try:
            for kind, sid, whole in frames(self.inbox, FROM_LAUNCHER):
                self.from_launcher(kind, sid, whole)
        except MALFORMED as error:
            self.stderr = (self.stderr + f"The launcher sent {error}\n".encode())[-MAX_STDERR:]
            self.inbox.clear()
            self.is_broken = True
            self.end(asked=False)  # which leaves it time to end what it has started

    def from_launcher(self, kind, sid, whole):
        if kind == EXIT:
            self.exit = exit_of(json.loads(whole[HEADER.size :]))
        if self.awaits_ready:
            if kind != READY or sid != self.resets or self.host is None:
                return
            self.awaits_ready = False
            whole = frame(READY, 0, whole[HEADER.size :])
        self.to_host(whole)

    def on_stderr(self, _):
        data = self.read(self.process.stderr.fileno())
        if data is None:
            return
        if not data:
            self.selector.unregister(self.process.stderr)
            return
        self.take_stderr(data)

    def take_stderr(self, data):
        self.stderr = (self.stderr + data)[-MAX_STDERR:]
        if self.takes:
            for at in range(0, len(data), MAX_PAYLOAD):
                self.to_host(frame(STDERR, 0, data[at : at + MAX_PAYLOAD]))

    def read(self, fd):
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def rest_of(self, pipe):
        """Reads what a pipe still holds."""
        while not pipe.closed and (data := self.read(pipe.fileno())):
            yield data

    def on_term(self, *_):
        self.end_requested = True

    def on_wake(self, _):
        try:
            os.read(self.wake_in, 4096)
        except BlockingIOError:
            pass
        if self.end_requested:
            self.end(asked=True)
        self.reap()

    def reap(self):
        if self.process.poll() is not None:
            self.finish()

    # --- hosts --------------------------------------------------------------------------------

    def on_listener(self, _):
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        if self.ending is not None or len(self.strangers) >= MAX_WAITING:
            sock.close()
            return
        stranger = Host(sock)
        self.strangers.add(stranger)
        stranger.send(
            message(GREETING, protocol=PROTOCOL, session=self.spec["id"], epoch=self.epoch)
        )

    def on_host(self, host, events):
        if not events & READ:
            return
        try:
            data = host.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.lose(host)
            return
        host.heard = time.monotonic()
        host.inbox += data
        try:
            if host in self.strangers:
                if len(host.inbox) > HEADER.size + MAX_PAYLOAD:
                    raise Broken("too much before the secret")
                for _, _, whole in frames(host.inbox, {HELLO}):
                    self.hello(host, json.loads(whole[HEADER.size :]))
                    break
            elif host is self.host:
                for kind, _, whole in frames(host.inbox, self.ACCEPTS):
                    self.from_host(kind, whole)
        except MALFORMED:
            self.lose(host)

    def hello(self, stranger, said):
        self.strangers.discard(stranger)
        epoch = said["epoch"]
        if not hmac.compare_digest(str(said["secret"]).encode(), self.spec["secret"].encode()):
            self.refuse(stranger, "secret")
        elif said["protocol"] != PROTOCOL:
            self.refuse(stranger, "protocol")
        elif said["want"] == "end":
            self.enders.add(stranger)
            self.end_for("ended")
        elif said["want"] == "status":
            self.enders.add(stranger)  # it hangs up
            stranger.send(self.welcome())
        elif type(epoch) is not int or epoch <= self.epoch:
            self.refuse(stranger, "epoch")
        else:
            self.attach(stranger, said)

    def attach(self, stranger, said):
        other = self.host
        if other is not None:
            self.refuse(other, "taken", pid=process_of(stranger.sock))
            self.leave()
        self.epoch = said["epoch"]
        self.host = stranger
        self.beat = time.monotonic()
        stranger.send(self.welcome(took_over=other is not None))
        if self.resets:
            self.to_launcher(frame(ATTACH, self.resets))

    def welcome(self, took_over=False):
        now = time.monotonic()
        return message(
            WELCOME,
            epoch=self.epoch,
            pid=self.pid,
            attached=self.host is not None,
            tookOver=took_over,
            aloneMs=None if self.host is not None else int((now - self.alone_since) * 1000),
            stderr=self.stderr.decode(errors="replace"),
            kept=self.kept,
            heldMs=int(self.held * 1000),
        )

    def refuse(self, host, why, **more):
        """Sends the reason, and closes the connection after that."""
        host.send(message(REFUSED, why=why, protocol=PROTOCOL, **more))
        host.heard = time.monotonic()
        self.refused.add(host)

    def to_host(self, whole):
        if self.host is not None:
            self.host.send(whole)

    def from_host(self, kind, whole):
        if kind in FROM_HOST:
            self.to_launcher(whole)
        elif kind == END:
            self.end(asked=True)
        elif kind == KEEP:
            said = json.loads(whole[HEADER.size :])
            if "kept" in said:
                self.kept = said["kept"]
                self.kept_at, self.held = time.monotonic(), 0
            if "folders" in said and self.held_back:
                self.folders = [str(folder) for folder in said["folders"]]
                self.held_back = False
                self.to_launcher(b"\n")

    def lose(self, host):
        """Handles the end of a connection."""
        if host is self.host:
            self.leave()
        for group in (self.strangers, self.refused, self.enders):
            group.discard(host)
        self.close(host)

    def leave(self):
        """Informs the launcher that the host is gone; its messages are dropped until the next one."""
        self.host = None
        self.alone_since = time.monotonic()
        if self.kept_at is not None:
            self.held, self.kept_at = self.alone_since - self.kept_at, None
        self.resets += 1
        self.awaits_ready = True
        self.to_launcher(frame(DETACH, self.resets))
        if self.kept is None:
            # The session is only partially started, and no other host can continue it.
            self.end(asked=True)

    def connections(self):
        return [*filter(None, [self.host]), *self.strangers, *self.refused, *self.enders]

    def close(self, host):
        if host.sock.fileno() >= 0:
            self.register(host.sock, 0)
            host.sock.close()

    # --- writing ------------------------------------------------------------------------------

    def flush(self):
        if self.process is not None and not self.process.stdin.closed:
            fd = self.process.stdin.fileno()
            if not write(self.outbox, lambda data: os.write(fd, data)):
                self.outbox.clear()  # it has exited, as its output will show
        for host in self.connections():
            is_there = write(host.outbox, host.sock.send)
            if not is_there or (host in self.refused and not host.outbox):
                self.lose(host)

    @property
    def takes(self):
        """Whether it takes the launcher's output, which waits in its pipe before the first host."""
        if self.host is None:
            return self.resets > 0
        return len(self.host.outbox) < CONGESTED

    @property
    def backlog(self):
        """How many bytes wait for the launcher."""
        return len(self.outbox)

    def watch(self):
        """Registers for exactly those events that can be handled."""
        if self.process is not None and not self.process.stdout.closed:
            self.register(self.process.stdout, READ if self.takes else 0, self.on_launcher)
        if self.process is not None and not self.process.stdin.closed:
            self.register(self.process.stdin, WRITE if self.outbox else 0, lambda _: None)
        for host in self.connections():
            takes = host not in self.refused and (host is not self.host or self.backlog < CONGESTED)
            events = (READ if takes else 0) | (WRITE if host.outbox else 0)
            self.register(host.sock, events, lambda got, host=host: self.on_host(host, got))

    def register(self, file, events, act=None):
        known = self.selector.get_map().get(file)
        if known is None and events:
            self.selector.register(file, events, act)
        elif known is not None and not events:
            self.selector.unregister(file)
        elif known is not None and known.events != events:
            self.selector.modify(file, events, act)

    # --- the end ------------------------------------------------------------------------------

    def end(self, asked):
        """Makes the launcher end everything that it started."""
        if self.ending is not None or self.over:
            return
        self.ending = (time.monotonic(), asked)
        self.register(self.process.stdin, 0)
        try:
            self.process.stdin.close()
        except OSError:
            pass

    def kill(self):
        self.end(asked=False)
        for name in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, name)
            except OSError:
                pass  # it has ended
            try:
                self.process.wait(KILL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                pass
        self.finish()

    def finish(self):
        """Removes what is left of the session, and records an end that nobody requested."""
        if self.over:
            return
        self.over = True
        self.collect()
        asked = self.ending is not None and self.ending[1]
        self.listener.close()
        for path in self.spec["remove"]:
            attempt(remove, path)
        for path in self.folders:
            attempt(remove_group, path)
        if asked:
            attempt(remove, self.spec["folder"])
        else:
            attempt(self.bury)
        for host in self.connections():
            if self.farewell is not None:
                host.send(message(REFUSED, why=self.farewell, protocol=PROTOCOL))
            attempt(self.say_last, host)

    def collect(self):
        """Ends the command's group, and takes its last output."""
        process = self.process
        unsent = b"".join(self.rest_of(process.stderr))
        self.stderr = (self.stderr + unsent)[-MAX_STDERR:]
        # The last frames, such as how the gateway ended.
        for data in self.rest_of(process.stdout):
            self.inbox += data
        try:
            for kind, sid, whole in frames(self.inbox, FROM_LAUNCHER):
                self.from_launcher(kind, sid, whole)
        except MALFORMED:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass  # its group is empty, as expected
        self.to_host(frame(STDERR, 0, unsent[-MAX_STDERR:]))

    def say_last(self, host):
        host.sock.settimeout(1)
        try:
            host.sock.sendall(host.outbox)
        finally:
            host.sock.close()

    def bury(self):
        """Records how the session was lost."""
        path = f"{self.spec['folder']}/record.json"
        with open(path) as file:
            record = json.load(file)
        record["lost"] = {"exit": self.exit, "at": time.time() * 1000}
        fresh = f"{path}.new"
        with open(fresh, "w") as file:
            try:
                json.dump(record, file)
                file.flush()
                os.rename(fresh, path)
            except OSError:
                os.unlink(fresh)  # the disk may be full
                raise


class Beside(Supervisor):
    """The supervisor beside a launcher elsewhere. Its host is the one here, which comes back after
    a cut."""

    ACCEPTS = FROM_HOST | {DETACH, ATTACH, BEAT, END, ACK}
    farewell = "gone"

    def __init__(self, spec, listener, confine):
        self.confine = confine  # what the command's process does before it runs
        self.words = os.dup(2)  # for its process to report why it cannot
        self.stream = Numbered()
        super().__init__(spec, listener)

    def start(self):
        self.launch(self.spec["argv"])
        os.close(self.words)

    def prepare(self):
        super().prepare()
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # to write to its own /proc/self
        try:
            self.confine()
        except BaseException as error:
            os.write(self.words, f"{error}\n".encode())
            raise

    def look(self):
        self.looked = time.monotonic()  # the record is here

    @property
    def takes(self):
        return self.stream.size < WINDOW

    def attach(self, stranger, said):
        self.stream.ack(said["received"])
        if self.host is not None:
            self.lose(self.host)
        self.epoch = said["epoch"]
        self.host = stranger
        self.beat = time.monotonic()
        stranger.send(message(WELCOME, received=self.stream.taken))
        for whole in self.stream.kept:
            stranger.send(whole)

    def leave(self):
        self.host = None
        self.alone_since = time.monotonic()

    def to_host(self, whole):
        self.stream.keep(whole)
        super().to_host(whole)

    def from_host(self, kind, whole):
        if kind == ACK:
            self.stream.ack(json.loads(whole[HEADER.size :])["taken"])
            return
        if kind == BEAT:
            return
        if self.stream.take(whole):
            super().to_host(self.stream.acknowledgement())
        if kind == END:
            self.end(asked=True)
        else:
            self.to_launcher(whole)

    def bury(self):
        remove(self.spec["folder"])


class Reaching(Supervisor):
    """The supervisor here of a launcher elsewhere. A command connects to the one there, again and
    again."""

    def __init__(self, spec, listener):
        self.reach = spec["reach"]
        self.stream = Numbered()
        self.attempts = 0
        self.delay = FIRST_DELAY
        self.next = self.lost = self.opened = self.heard = self.said = time.monotonic()
        self.is_met = False  # the one there has answered
        self.was_met = False
        self.words = b""  # the open line of the command's stderr
        self.last_words = ""
        self.failed = False  # something may be left there
        self.unreached = False
        super().__init__(spec, listener)

    def start(self):
        self.held_back = False  # the command gets no control group

    @property
    def pid(self):
        return os.getpid()

    @property
    def backlog(self):
        return self.stream.size

    def deadlines(self):
        yield from super().deadlines()
        if self.ending is not None and not self.is_met:
            yield self.ending[0] + END_SECONDS, self.kill
        if self.process is None:
            yield self.next, self.connect
            late = "it has not answered for too long"
            yield self.lost + self.reach["patience_seconds"], lambda: self.give_up(late)
        elif not self.is_met:
            yield self.opened + CONNECT_SECONDS, self.cut
        else:
            yield self.heard + DEAD_SECONDS, self.cut
            yield self.said + BEAT_SECONDS, self.send_sign

    def send_sign(self):
        self.said = time.monotonic()
        if self.is_met:
            super().to_launcher(frame(BEAT))

    def say(self, text):
        self.to_host(message(NOTE, text=text))

    # --- the command --------------------------------------------------------------------------

    def connect(self):
        self.attempts += 1
        try:
            self.launch(self.reach["command"])
        except OSError as error:
            self.last_words = str(error)
            self.put_off()
            return
        self.opened = time.monotonic()
        program = f"{self.reach['program']}\0{json.dumps({'socket': self.reach['socket']})}\n"
        super().to_launcher(program.encode())
        super().to_launcher(
            message(
                HELLO,
                protocol=PROTOCOL,
                secret=self.reach["secret"],
                want="attach",
                epoch=self.attempts,
                received=self.stream.taken,
            )
        )

    def to_launcher(self, data):
        self.stream.keep(data)
        if self.is_met:
            super().to_launcher(data)

    def on_launcher(self, _):
        if self.process is None:
            return  # it was cut by an earlier event in this round
        data = self.read(self.process.stdout.fileno())
        if data is None:
            return
        if not data:
            self.cut()
            return
        self.heard = time.monotonic()
        self.inbox += data
        allowed = FROM_LAUNCHER | {GREETING, WELCOME, REFUSED, BEAT, STDERR, ACK}
        try:
            for kind, sid, whole in frames(self.inbox, allowed):
                self.from_far(kind, sid, whole)
                if self.over:
                    break
        except MALFORMED as error:
            if self.is_met:
                self.give_up(f"it said {error}")
            else:
                self.last_words = f"something else answered: {error}"
                self.cut()

    def from_far(self, kind, sid, whole):
        if kind in (WELCOME, REFUSED, ACK):
            said = json.loads(whole[HEADER.size :])
        if kind == REFUSED:
            self.on_refused(said["why"])
        elif kind == WELCOME:
            self.meet(said["received"])
        elif kind in (GREETING, BEAT):
            pass
        elif not self.is_met:
            raise Broken(f"a frame of type {kind} before its welcome")
        elif kind == ACK:
            self.stream.ack(said["taken"])
        else:
            self.delay = FIRST_DELAY  # the connection works
            if self.stream.take(whole):
                super().to_launcher(self.stream.acknowledgement())
            if kind == STDERR:
                super().take_stderr(whole[HEADER.size :])
            else:
                self.from_launcher(kind, sid, whole)

    def meet(self, received):
        """Continues after the frames that the one there has taken."""
        if self.is_met:
            raise Broken("a second welcome")
        self.is_met = True
        self.stream.ack(received)
        for whole in self.stream.kept:
            super().to_launcher(whole)
        super().to_launcher(self.stream.acknowledgement())
        if self.was_met:
            away = time.monotonic() - self.lost
            self.say(f"the connection is attached again after {away:.1f} s")
        self.was_met = True

    def on_refused(self, why):
        if self.is_met:
            self.finish()  # its last words
        elif why == "gone":
            self.give_up("it has ended", is_gone=True)
        else:
            self.give_up(f"it refuses: {why!r}"[:100])

    def on_stderr(self, events):
        if self.process is not None:
            super().on_stderr(events)

    def take_stderr(self, data):
        """Takes the command's own messages, of which the last may say why it does not connect."""
        *lines, rest = (self.words + data).split(b"\n")
        self.words = rest[-MAX_STDERR:]
        for text in lines:
            self.last_words = text[:500].decode(errors="replace").strip() or self.last_words
        super().take_stderr(data)

    def reap(self):
        pass  # the end of the command's output shows that it has ended

    @property
    def takes(self):
        return self.ending is not None or super().takes  # its welcome, to request its end

    def watch(self):
        # Nobody was reading.
        if self.process is None or self.process.stdout not in self.selector.get_map():
            self.heard = time.monotonic()
        if self.host is not None and self.backlog >= CONGESTED:
            self.host.heard = time.monotonic()
        super().watch()

    def cut(self):
        """Replaces the command, which has ended or leads nowhere."""
        had_met = self.is_met
        try:
            self.process.wait(WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # it is ended now
        self.drop()
        if self.is_gone():
            self.give_up(self.last_words, is_gone=True)
            return
        if had_met:
            self.lost = time.monotonic()
            self.say("the connection was lost, and is being attached again")
        self.put_off()

    def put_off(self):
        self.next = time.monotonic() + self.delay
        self.delay = min(2 * self.delay, MAX_DELAY)

    def drop(self):
        """Ends the command, and takes its last output."""
        process = self.process
        if process is None:
            return
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended
        process.wait()
        for data in self.rest_of(process.stderr):
            self.take_stderr(data)
        for file in (process.stdin, process.stdout, process.stderr):
            self.register(file, 0)
            file.close()
        self.process = None
        self.is_met = False
        self.inbox.clear()
        self.outbox.clear()

    def is_gone(self):
        """Whether the command says that the place is gone."""
        pattern = self.reach["gone"]
        return pattern is not None and re.search(pattern, self.last_words) is not None

    # --- the end ------------------------------------------------------------------------------

    def give_up(self, why, is_gone=False):
        """Gives up the session: nothing is left there, or nothing that can be continued."""
        if self.ending is not None and not is_gone:
            self.kill()
            return
        if self.ending is None:
            self.failed = True
            self.say(f"the session no longer exists: {why}")
        self.finish()

    def end(self, asked):
        if self.ending is None and not self.over:
            self.ending = (time.monotonic(), asked)
            self.to_launcher(frame(END))

    def kill(self):
        """Leaves the one there, which cannot be reached, to end by itself."""
        self.failed = self.unreached = True
        self.finish()

    def collect(self):
        self.drop()
        stopped = (self.failed or self.reach["made"]) and self.stop()
        if self.unreached and not stopped:
            self.farewell = "left"

    def stop(self):
        """Removes the place, if there is a command for that. Returns whether it is gone."""
        command = self.reach["stop"]
        if command is None:
            return False
        with tempfile.TemporaryFile() as said:  # not a pipe, which another process may keep open
            try:
                done = subprocess.run(
                    command,
                    check=False,
                    cwd="/",
                    env=self.spec["env"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    timeout=STOP_SECONDS,
                )
            except (OSError, subprocess.TimeoutExpired):
                return False
            said.seek(0)
            self.take_stderr(said.read(MAX_STDERR))
        return done.returncode == 0 or self.is_gone()


def exit_of(said):
    """The gateway's exit status as the launcher reports it, validated for the record of a lost session."""
    code, name = said["code"], said["signal"]
    if code is not None and not (type(code) is int and abs(code) < 1 << 32):
        raise Broken("an invalid exit code")
    if name is not None and not re.fullmatch("SIG[A-Z0-9]{1,12}", name):
        raise Broken("an invalid signal")
    return {"code": code, "signal": name}


def process_of(sock):
    """The process of a connection, if the system reports it."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    size = struct.calcsize("3i")
    pid, _, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid or None  # 0 in another namespace


def take_lock(path):
    """Replaces a file that the host has locked with one that this process locks until it ends."""
    fresh = f"{path}.next"
    with open(path, "rb") as file:
        content = file.read()
    fd = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    os.write(fd, content)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.rename(fresh, path)


def attempt(act, *args):
    """Takes one step of the end, ignoring errors so that the others are still taken. The next session
    that starts removes what is left in a folder with a lock."""
    try:
        act(*args)
    except Exception:
        pass


def remove(path):
    """Removes a file, or a folder, whatever code did to it: Python itself is limited by its recursion depth,
    and cannot enter folders without permissions. The lock is removed last, so that the next session that
    starts finds and removes what is left."""
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return
    others = 'find "$0" -mindepth 1 ! -path "$0/lock" -delete'
    subprocess.run(
        ["sh", "-c", f'chmod -R u+rwx -- "$0"; {others} && rm -rf -- "$0"', path],
        check=False,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=REMOVE_SECONDS,
    )


def remove_group(path):
    """Removes a control group, which stays busy for a moment after its last process."""
    deadline = time.monotonic() + 2
    while os.path.isdir(path) and time.monotonic() < deadline:
        try:
            os.rmdir(path)
        except OSError:
            time.sleep(0.01)


def listen(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    listener.bind(path)
    os.umask(before)
    listener.listen(8)
    listener.setblocking(False)
    return listener


def close_inherited():
    """Closes inherited descriptors: the host's callers may wait for the end of their pipes."""
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that listed the folder, already closed


def serve(kind, spec, *more):
    """Becomes a supervisor and reports that, detached from its parent unless this is PID 1 of a container."""
    listener = listen(spec["socket"])
    ready_in, ready_out = os.pipe()
    if os.getpid() != 1:
        if os.fork():
            os.close(ready_out)
            os._exit(0 if os.read(ready_in, 1) else 1)
        os.setsid()
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # protects the secret
        if spec["lock"]:
            take_lock(spec["lock"])
        supervisor = kind(spec, listener, *more)
    except BaseException as error:
        os.write(2, f"Cannot start the session's supervisor: {error}\n".encode())
        if kind is Beside:  # elsewhere, the host removes nothing
            for path in [*spec["remove"], spec["folder"]]:
                attempt(remove, path)
        os._exit(1)
    os.write(1, b'{"held": true}\n')
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.write(ready_out, b"1")
    os.close(ready_in)
    os.close(ready_out)
    supervisor.run()
    os._exit(0)


def serve_beside(spec, confine):
    """Starts a launcher elsewhere. Code there must not know its settings, nor others its folder."""
    os.mkdir(spec["folder"], 0o700)
    os.chdir("/")
    serve(Beside, spec, confine)


def main():
    close_inherited()
    spec = json.load(sys.stdin)
    serve(Reaching if spec["reach"] else Supervisor, spec)


if __name__ == "__main__":
    main()
