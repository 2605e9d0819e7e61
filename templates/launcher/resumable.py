"""A stream of bytes that outlives the connections that carry it.

In a durable session elsewhere, this file runs in three roles between the supervisor and the launcher,
with only the standard library. `relay` replaces the launcher here, `hold` is the parent of the launcher
there, and a carrier's command, which may be cut at any byte, connects the two: the relay sends this
file through it, which becomes `attach` and connects to the holder's socket. Both sides number the bytes
and keep those that the other has not acknowledged, so that their neighbors see one uninterrupted
stream. What a relay has kept is lost with it: if it is killed, `end` takes its place and makes the
holder end.

A connection begins with a line of JSON from the relay, then one from the holder, which say how much
each has received. Then frames follow: `type u8, length u32, payload`, big-endian.
"""

import ctypes
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
import threading
import time

PROTOCOL = 1

# Bytes of the stream; how many of them were taken (u64); a heartbeat; the end of the stream; everything
# has arrived; the launcher's stderr.
DATA, ACK, BEAT, FIN, BYE, NOTE = range(6)

HEADER = struct.Struct(">BI")
COUNT = struct.Struct(">Q")

CHUNK = 1 << 16
WINDOW = 1 << 22  # unacknowledged bytes beyond which no more are read
ACK_EVERY = 1 << 16
CONGESTED = 1 << 18
MAX_LINE = 1 << 12
MAX_NOTE = 1 << 14
MAX_SAID = 4000  # characters of a line: the host would take the rest of a longer one for the next
MAX_WAITING = 8  # connections that have not shown the secret

FIRST_DELAY = 0.1
MAX_DELAY = 15
CONNECT_SECONDS = 60
HELLO_SECONDS = 10
DEAD_BEATS = 3
FIRST_SECONDS = 120  # a host that dies while it starts a session must not leave it behind
LINGER_SECONDS = 600  # for a relay that does not know of the end
SOON_SECONDS = 2
REMOVE_SECONDS = 600
EXIT_SECONDS = 10  # the launcher's own grace periods are shorter
END_SECONDS = 10
STOP_SECONDS = 5
BYE_SECONDS = 8
WORDS_SECONDS = 0.5  # for a carrier to say why it exits
MAX_SLEEP_SECONDS = 3600

# Exit codes of a relay besides 0: something may still run there; nothing is left there.
LEFT, GONE = 75, 76

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

# Control characters, and what marks the beginning of a text.
OBEYED = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\ufeff]")


class Broken(Exception):
    """The other side violated the protocol."""


# The errors of a malformed line or frame.
MALFORMED = (Broken, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error)


def line(**content):
    return json.dumps(content).encode() + b"\n"


def read_now(fd):
    """Reads available bytes: `None` if there are none yet, empty at the end or after an error."""
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def write_all(fd, data):
    while data:
        data = data[os.write(fd, data) :]


class Connection:
    """A connection that carries the stream for a while."""

    def __init__(self, reader, writer, process=None):
        self.reader, self.writer = reader, writer
        self.process = process  # the carrier, whose stdin and stdout these are
        self.errors = None  # and its stderr
        self.words = b""  # of which this is an open line
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.opened = self.heard = self.beat = time.monotonic()
        self.met = False  # both lines have been exchanged
        self.sent = 0  # the position up to which the stream was sent on it
        self.said_end = False
        self.is_deaf = False  # it accepts no more data

    def send(self, kind, payload=b""):
        if not self.is_deaf:
            self.outbox += HEADER.pack(kind, len(payload)) + payload


class Side:
    """One side of the stream: an event loop with one thread and no blocking calls."""

    def __init__(self, source, sink, beat_seconds):
        self.source, self.sink = source, sink
        self.beat_seconds = beat_seconds
        self.kept = bytearray()  # from the source, not yet acknowledged by the other side
        self.acked = 0  # how much it has acknowledged
        self.has_ended = False  # the source
        self.received = 0
        self.pending = bytearray()  # from the other side, not yet written to the sink
        self.told = 0  # how much of it was acknowledged
        self.other_ended = False
        self.connection = None
        self.selector = selectors.DefaultSelector()
        self.watched = {}
        self.code = None  # how this process exits
        self.wake_in, wake_out = os.pipe()
        for fd in (source, sink, self.wake_in, wake_out):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it only has to wake the loop
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def run(self):
        while True:
            # The forwarded bytes may have been the last ones.
            for act in (self.check_times, self.move, self.step, self.watch, self.wait):
                act()
                if self.code is not None:
                    return self.code

    def wait(self):
        for key, _ in self.selector.select(self.timeout()):
            act, *args = key.data
            act(*args)

    # --- time ---------------------------------------------------------------------------------

    def own_deadlines(self):
        raise NotImplementedError

    def deadlines(self):
        """What is due when."""
        yield from self.own_deadlines()
        connection = self.connection
        if connection is not None and connection.met:
            dead = connection.heard + DEAD_BEATS * self.beat_seconds
            yield dead, lambda: self.lose(connection)
            yield connection.beat + self.beat_seconds, self.send_beat

    def timeout(self):
        """How long to wait; the system accepts at most 24 days."""
        seconds = min((when for when, _ in self.deadlines()), default=float("inf"))
        return max(0, min(seconds - time.monotonic(), MAX_SLEEP_SECONDS))

    def check_times(self):
        now = time.monotonic()
        for act in [act for when, act in self.deadlines() if when <= now]:
            if self.code is None:
                act()

    def send_beat(self):
        if self.connection is not None:
            self.connection.beat = time.monotonic()
            self.connection.send(BEAT)

    # --- the stream ---------------------------------------------------------------------------

    @property
    def taken(self):
        return self.received - len(self.pending)

    def on_source(self):
        data = read_now(self.source)
        if data is not None:
            self.kept += data
            self.has_ended = not data

    def meet(self, connection, received):
        """Continues where the other side has received the stream."""
        connection.met = True
        if type(received) is not int or not 0 <= received - self.acked <= len(self.kept):
            raise Broken(f"that it has received {received!r} bytes")
        connection.heard = connection.beat = time.monotonic()
        connection.sent = received
        self.tell()

    def tell(self):
        self.told = self.taken
        self.connection.send(ACK, COUNT.pack(self.told))

    def move(self):
        """Forwards as much as possible now."""
        while self.pending and self.sink is not None:
            try:
                del self.pending[: os.write(self.sink, self.pending[:CHUNK])]
            except BlockingIOError:
                break
            except OSError:
                self.close_sink()
        if self.sink is None:
            self.pending.clear()
        connection = self.connection
        while connection is not None and connection is self.connection:
            if connection.met:
                self.fill(connection)
            self.write(connection)
            if connection.outbox or connection.is_deaf or not connection.met:
                return
            if connection.sent == self.acked + len(self.kept):
                return

    def fill(self, connection):
        """Queues what can be sent."""
        end = self.acked + len(self.kept)
        while connection.sent < end and len(connection.outbox) < CONGESTED:
            at = connection.sent - self.acked
            part = self.kept[at : at + CHUNK]
            connection.send(DATA, part)
            connection.sent += len(part)
        if self.has_ended and connection.sent == end and not connection.said_end:
            connection.said_end = True
            connection.send(FIN)
        if self.taken - self.told >= ACK_EVERY:
            self.tell()

    def write(self, connection):
        while connection.outbox:
            try:
                del connection.outbox[: os.write(connection.writer, connection.outbox[:CHUNK])]
            except BlockingIOError:
                break
            except OSError:
                connection.outbox.clear()  # the remaining input says more
                connection.is_deaf = True

    def on_connection(self, connection):
        if connection not in self.connections():
            return  # closed by an earlier event of the same round
        data = read_now(connection.reader)
        if data is None:
            return
        if not data:
            self.lose(connection)
            return
        connection.heard = time.monotonic()
        connection.inbox += data
        try:
            self.take(connection)
        except MALFORMED as error:
            self.on_broken(connection, error)

    def take(self, connection):
        inbox = connection.inbox
        if not connection.met:
            end = inbox.find(b"\n", 0, MAX_LINE)
            if end < 0:
                if len(inbox) >= MAX_LINE:
                    raise Broken(f"no line, but {bytes(inbox[:200])!r}")
                return
            said = bytes(inbox[:end])
            del inbox[: end + 1]
            self.on_line(connection, said)
        while connection is self.connection and connection.met and len(inbox) >= HEADER.size:
            kind, length = HEADER.unpack_from(inbox)
            if length > CHUNK:
                raise Broken(f"a frame of {length} bytes")
            end = HEADER.size + length
            if len(inbox) < end:
                return
            payload = bytes(inbox[HEADER.size : end])
            del inbox[:end]
            self.on_frame(kind, payload)

    def on_frame(self, kind, payload):
        if kind == DATA:
            self.received += len(payload)
            self.pending += payload
            if self.other_ended or len(self.pending) > WINDOW + CHUNK:
                raise Broken("more data than it may send")
        elif kind == ACK:
            (count,) = COUNT.unpack(payload)
            if not 0 <= count - self.acked <= len(self.kept):
                raise Broken(f"that it has taken {count} bytes")
            del self.kept[: count - self.acked]
            self.acked = count
        elif kind == FIN:
            self.other_ended = True
        elif kind != BEAT:
            raise Broken(f"a frame of type {kind}")

    # --- what is watched ----------------------------------------------------------------------

    def connections(self):
        return [] if self.connection is None else [self.connection]

    def own_watches(self):
        return {}

    def watch(self):
        """Registers for exactly those events that can be handled."""
        wanted = {self.wake_in: (READ, (self.on_wake,)), **self.own_watches()}
        if not self.has_ended and len(self.kept) < WINDOW:
            wanted[self.source] = (READ, (self.on_source,))
        if self.pending and self.sink is not None:
            wanted[self.sink] = (WRITE, (self.nothing,))
        for connection in self.connections():
            reads, writes = connection.reader, connection.writer
            act = (self.on_connection, connection)
            wanted[reads] = (READ, act)
            if connection.outbox and reads == writes:
                wanted[reads] = (READ | WRITE, act)
            elif connection.outbox:
                wanted[writes] = (WRITE, (self.nothing,))
        for fd in self.watched.keys() - wanted.keys():
            self.selector.unregister(fd)
        for fd, (events, act) in wanted.items():
            if fd not in self.watched:
                self.selector.register(fd, events, act)
            elif self.watched[fd] != (events, act):
                self.selector.modify(fd, events, act)
        self.watched = wanted

    def nothing(self):
        """The next round writes."""

    def on_wake(self):
        try:
            os.read(self.wake_in, 4096)
        except BlockingIOError:
            pass

    def close(self, fd):
        if self.watched.pop(fd, None) is not None:
            self.selector.unregister(fd)
        os.close(fd)

    def close_sink(self):
        if self.sink is not None:
            self.close(self.sink)
            self.sink = None


class Relay(Side):
    """The supervisor's side, which the supervisor takes for the launcher."""

    def __init__(self, spec, program, ends=False):
        super().__init__(0, 1, spec["beat_seconds"])
        self.spec = spec
        self.ends = ends  # whether it only comes to end the session
        self.program = program
        self.attempts = 0
        self.delay = FIRST_DELAY
        self.next = self.lost = time.monotonic()
        self.was_attached = False
        self.last_words = ""
        self.ending = None  # since when the supervisor wants to end
        self.bye = None  # since when everything has arrived
        signal.signal(signal.SIGTERM, self.on_stop_signal)
        for name in (signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)

    def say(self, text):
        self.write_note(b"relay: " + text.encode())

    def write_note(self, text):
        try:
            os.write(2, text + b"\n")
        except OSError:
            pass  # nobody reads it

    def say_other(self, text):
        """Forwards lines of others, which must not look like ours, not even without the control
        characters that the host removes."""
        for part in text.splitlines():
            plain = OBEYED.sub("", part.decode(errors="replace"))[:MAX_SAID]
            self.write_note((f" {plain}" if plain.startswith("relay:") else plain).encode())

    def own_deadlines(self):
        if self.bye is not None:
            yield self.bye + BYE_SECONDS, self.end_well
        elif self.ending is not None:
            yield self.ending + END_SECONDS, self.leave_behind
        connection = self.connection
        if connection is None:
            yield self.next, self.connect
            patience = self.spec["idle_seconds"]
            yield self.lost + patience, lambda: self.give_up("it has not answered for too long")
        elif not connection.met:
            yield connection.opened + CONNECT_SECONDS, lambda: self.lose(connection)

    def step(self):
        if self.has_ended and self.ending is None:
            self.ending = time.monotonic()
        if self.other_ended and not self.pending and self.bye is None:
            self.bye = time.monotonic()
            if self.connection is not None and self.connection.met:
                self.connection.send(BYE)

    def own_watches(self):
        connection = self.connection
        if connection is None or connection.errors is None:
            return {}
        return {connection.errors: (READ, (self.on_errors, connection))}

    # --- connections --------------------------------------------------------------------------

    def connect(self):
        self.attempts += 1
        try:
            process = subprocess.Popen(
                self.spec["command"],
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            self.last_words = str(error)
            self.put_off()
            return
        # Duplicates, so that nothing else closes them.
        ends = [os.dup(pipe.fileno()) for pipe in (process.stdout, process.stdin, process.stderr)]
        for pipe in (process.stdout, process.stdin, process.stderr):
            pipe.close()
        for fd in ends:
            os.set_blocking(fd, False)
        connection = self.connection = Connection(ends[0], ends[1], process)
        connection.errors = ends[2]
        connection.outbox += self.program + b"\0" + line(socket=self.spec["socket"])
        connection.outbox += line(
            protocol=PROTOCOL,
            secret=self.spec["secret"],
            epoch=self.attempts,
            received=self.received,
            ends=self.ends,
        )

    def on_line(self, connection, said):
        try:
            answer = json.loads(said)
            refused = answer.get("refused")
        except MALFORMED:
            self.last_words = f"something else answered: {said[:200]!r}"
            self.lose(connection)
            return
        if refused is not None:
            self.give_up(
                "it has ended" if refused == "gone" else f"it refuses: {repr(refused)[:100]}"
            )
            return
        self.meet(connection, answer["received"])
        if self.was_attached:
            away = time.monotonic() - self.lost
            self.say(f"the connection is attached again after {away:.1f} s")
        self.was_attached = True
        if self.bye is not None:
            connection.send(BYE)

    def on_frame(self, kind, payload):
        if kind == NOTE:
            self.say_other(payload)
            return
        if kind == BYE and self.bye is not None:
            self.end_well()
            return
        if kind in (DATA, ACK):
            self.delay = FIRST_DELAY  # it leads somewhere
        super().on_frame(kind, payload)

    def on_errors(self, connection):
        """Forwards the carrier's own messages."""
        if connection is not self.connection:
            return
        data = read_now(connection.errors)
        if data is None:
            return
        if not data:
            self.close(connection.errors)
            connection.errors = None
            return
        *lines, rest = (connection.words + data).split(b"\n")
        connection.words = rest[-MAX_NOTE:]
        for text in lines:
            self.hear(text)

    def hear(self, text):
        self.last_words = text[:500].decode(errors="replace").strip() or self.last_words
        self.say_other(text)

    def on_broken(self, connection, error):
        if connection.met:
            self.give_up(f"it said {error}")
            return
        self.last_words = str(error)
        self.lose(connection)

    def lose(self, connection):
        """Handles the loss of a connection, which is replaced."""
        if connection is not self.connection:
            return
        had_met = connection.met
        try:
            connection.process.wait(WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            pass  # it is ended now
        self.drop()
        if self.is_gone():
            self.give_up(self.last_words)
        else:
            if had_met:
                self.lost = time.monotonic()
                self.say("the connection was lost, and is being attached again")
            self.put_off()

    def drop(self):
        """Ends the carrier, and reads its last messages."""
        connection, self.connection = self.connection, None
        if connection is None:
            return
        try:
            os.killpg(connection.process.pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended
        connection.process.wait()
        if connection.errors is not None:
            self.connection = connection
            while connection.errors is not None and self.has_words(connection.errors):
                self.on_errors(connection)
            self.connection = None
            if connection.errors is not None:
                self.close(connection.errors)
        for fd in (connection.reader, connection.writer):
            self.close(fd)

    def has_words(self, fd):
        with selectors.DefaultSelector() as looking:
            looking.register(fd, READ)
            return bool(looking.select(0))

    def is_gone(self):
        """Whether the carrier says that the place is gone."""
        pattern = self.spec["gone"]
        return pattern is not None and re.search(pattern, self.last_words) is not None

    def put_off(self):
        self.next = time.monotonic() + self.delay
        self.delay = min(2 * self.delay, MAX_DELAY)

    # --- the end ------------------------------------------------------------------------------

    def end_well(self):
        self.drop()
        if self.spec["made"]:
            self.stop()
        self.code = 0

    def give_up(self, why):
        """There is nothing left there, or nothing that can be continued."""
        if self.ending is not None or self.bye is not None:
            self.end_well()
            return
        self.drop()
        self.say(f"the session is not there any more: {why}")
        self.stop()
        self.code = GONE

    def leave_behind(self):
        """The other side cannot be told to end, so it will end by itself."""
        self.drop()
        if self.stop():
            self.code = 0
            return
        self.say(f"the session could not be ended there: {self.last_words}")
        self.code = LEFT

    def stop(self):
        """Makes the carrier end the place, if possible. Returns whether it did."""
        command = self.spec["stop"]
        if command is None:
            return False
        with tempfile.TemporaryFile() as said:  # not a pipe, which another process may keep open
            try:
                done = subprocess.run(
                    command,
                    check=False,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    timeout=STOP_SECONDS,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                self.say(str(error))
                return False
            said.seek(0)
            for text in said.read(MAX_NOTE).splitlines():
                self.hear(text)
        return done.returncode == 0 or self.is_gone()

    def on_stop_signal(self, *_):
        self.has_ended = True


class Holder(Side):
    """The launcher's side. It ends with the launcher, and removes what the session leaves."""

    def __init__(self, spec, listener):
        super().__init__(spec["source"], spec["sink"], spec["beat_seconds"])
        self.spec = spec
        self.listener = listener
        self.errors = spec["errors"]
        os.set_blocking(self.errors, False)
        self.words = bytearray()  # from the launcher, not yet forwarded
        self.launcher = spec["launcher"]
        self.exited = None  # since when
        self.epoch = 0
        self.strangers = set()
        self.started = self.alone = time.monotonic()
        self.ending = None
        self.linger = LINGER_SECONDS
        self.is_over = False  # the relay knows how it ended
        self.was_emptied = False
        signal.signal(signal.SIGTERM, lambda *_: self.end_soon())
        for name in (signal.SIGINT, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)

    def own_deadlines(self):
        for stranger in self.strangers:
            yield stranger.opened + HELLO_SECONDS, lambda it=stranger: self.lose(it)
        if self.exited is not None:
            yield self.exited + self.linger, self.finish
            if not self.has_ended:
                yield self.exited + EXIT_SECONDS, self.end_source
            return
        if self.ending is not None:
            yield self.ending + EXIT_SECONDS, self.kill
            return
        yield self.started + self.spec["max_seconds"], self.end_soon
        if self.connection is None:
            patience = self.spec["idle_seconds"]
            yield (
                self.alone + (min(patience, FIRST_SECONDS) if self.epoch == 0 else patience),
                (self.end_soon),
            )

    def step(self):
        self.reap()
        if self.other_ended and not self.pending:
            self.end()
        if self.exited is None:
            return
        if self.is_over:
            self.finish()
        elif self.connection is None and not self.was_emptied:
            self.was_emptied = True
            remove(self.spec["root"])

    def connections(self):
        return [*super().connections(), *self.strangers]

    def own_watches(self):
        wanted = {self.listener.fileno(): (READ, (self.on_listener,))}
        if self.errors is not None:
            wanted[self.errors] = (READ, (self.on_errors,))
        return wanted

    # --- connections --------------------------------------------------------------------------

    def on_listener(self):
        try:
            sock, _ = self.listener.accept()
        except OSError:
            return
        if len(self.strangers) >= MAX_WAITING or not is_ours(sock):
            sock.close()
            return
        fd = sock.detach()
        os.set_blocking(fd, False)
        self.strangers.add(Connection(fd, fd))

    def on_line(self, connection, said):
        hello = json.loads(said)
        epoch = hello["epoch"]
        if not hmac.compare_digest(str(hello["secret"]).encode(), self.spec["secret"].encode()):
            self.refuse(connection, "secret")
        elif hello["protocol"] != PROTOCOL:
            self.refuse(connection, "protocol")
        elif hello.get("ends"):
            self.end_soon()
            self.refuse(connection, "gone")
        elif type(epoch) is not int or epoch <= self.epoch:
            self.refuse(connection, "epoch")
        else:
            if self.connection is not None:
                self.lose(self.connection)  # the newest counts
            self.strangers.discard(connection)
            self.epoch = epoch
            self.connection = connection
            connection.outbox += line(protocol=PROTOCOL, received=self.received)
            self.meet(connection, hello["received"])
            self.say_words()

    def refuse(self, connection, why):
        connection.outbox += line(refused=why)
        self.write(connection)
        self.lose(connection)

    def on_frame(self, kind, payload):
        if kind == BYE:
            self.is_over = True
            return
        super().on_frame(kind, payload)

    def on_broken(self, connection, _):
        self.lose(connection)

    def lose(self, connection):
        if connection is self.connection:
            self.connection = None
            self.alone = time.monotonic()
        elif connection in self.strangers:
            self.strangers.discard(connection)
        else:
            return
        self.close(connection.reader)

    # --- the launcher -------------------------------------------------------------------------

    def on_errors(self):
        data = read_now(self.errors)
        if data is None:
            return
        if not data:
            self.close(self.errors)
            self.errors = None
            return
        self.words += data
        del self.words[:-MAX_NOTE]
        self.say_words()

    def say_words(self):
        """Forwards the launcher's stderr, in whole lines."""
        end = self.words.rfind(b"\n") + 1
        if end and self.connection is not None and len(self.connection.outbox) < CONGESTED:
            self.connection.send(NOTE, bytes(self.words[:end]))
            del self.words[:end]

    def reap(self):
        """Reaps every child, including orphans in a container."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.launcher:
                self.exited = time.monotonic()
                try:
                    os.killpg(pid, signal.SIGKILL)
                except OSError:
                    pass  # its group is empty, as it should be

    def end_source(self):
        self.has_ended = True

    def end(self):
        """Makes the launcher end everything that it started."""
        if self.ending is None:
            self.ending = time.monotonic()
            self.close_sink()

    def end_soon(self):
        """Ends without waiting for a relay."""
        self.linger = SOON_SECONDS
        self.end()

    def kill(self):
        self.ending = time.monotonic()
        try:
            os.killpg(self.launcher, signal.SIGKILL)
        except OSError:
            pass  # it has just ended

    def finish(self):
        self.listener.close()
        for path in (self.spec["root"], self.spec["folder"]):
            remove(path)
        if self.connection is not None:
            self.connection.send(BYE)
            self.write(self.connection)
        self.code = 0


def remove(path):
    """Removes a folder, whatever code did to it: see `boot.py`."""
    command = ["sh", "-c", 'chmod -R u+rwx -- "$0"; rm -rf -- "$0"', path]
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    # A session of its own, because the host's signals are for the group of this process.
    try:
        subprocess.run(
            command,
            check=False,
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
            timeout=REMOVE_SECONDS,
            **quiet,
        )
    except subprocess.TimeoutExpired:
        pass  # what is left of it goes on, unless it was stopped


def is_ours(sock):
    """Whether a connection comes from this user, if the system reports that."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # only the folder's mode protects it
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid == os.getuid()


def harden():
    """Protects the secret from other processes of this user."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def relay(config, ends=False):
    harden()
    with open(config) as file:
        spec = json.load(file)
    with open(__file__, "rb") as file:
        program = file.read()
    sys.exit(Relay(spec, program, ends).run())


def end(config):
    """Comes after a relay that was killed. Its stdin has ended, which is what it passes on."""
    relay(config, ends=True)


def hold():
    """Reports on stdout when it listens. Its settings come on stdin."""
    spec = json.load(sys.stdin)
    harden()
    ours = {spec[name] for name in ("source", "sink", "errors")}
    for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"):
        if int(name) > 2 and int(name) not in ours:
            try:
                os.close(int(name))
            except OSError:
                pass  # the one that listed the folder, already closed
    for fd in ours:
        os.set_inheritable(fd, False)
    os.umask(0o077)
    os.mkdir(spec["folder"])
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(f"{spec['folder']}/socket")
    listener.listen(8)
    listener.setblocking(False)
    os.chdir("/")
    holder = Holder(spec, listener)
    write_all(1, line(held=True))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    sys.exit(holder.run())


def attach():
    """Connects stdin and stdout to a holder."""
    harden()
    said = bytearray()
    while not said.endswith(b"\n"):
        said += os.read(0, 1) or sys.exit("The host went away")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(json.loads(said)["socket"])
        if not is_ours(sock):
            raise ConnectionRefusedError  # another user has taken the place of a holder that was killed
    except (FileNotFoundError, ConnectionRefusedError):
        write_all(1, line(refused="gone"))
        return
    fd = sock.detach()

    def copy(reader, writer):
        try:
            while data := os.read(reader, CHUNK):
                write_all(writer, data)
        except OSError:
            pass  # one side is gone, so the other one is closed
        os._exit(0)

    threading.Thread(target=copy, args=(0, fd), daemon=True).start()
    copy(fd, 1)


def main():
    role, *args = sys.argv[1:] or ["attach"]
    {"relay": relay, "end": end, "hold": hold, "attach": attach}[role](*args)


if __name__ == "__main__":
    main()
