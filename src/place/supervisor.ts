/**
 * Starts the supervisor of a durable session, which runs outside the sandbox and outlives its hosts,
 * and attaches to it.
 *
 * @module
 */
import { z } from "zod";
import { asset } from "../assets/mod.ts";
import {
  ConfigError,
  GatewayStartError,
  KernelDiedError,
  SessionEndedError,
  SessionTakenError,
} from "../base/errors.ts";
import type { Logger } from "../base/log.ts";
import { settledWithin } from "../base/signals.ts";
import { type ByteStream, CHUNK } from "../base/streams.ts";
import { joinBytes } from "../base/bytes.ts";
import { encodeFrame, type Frame, FrameDecoder, FrameType, LinkError } from "../link/frame.ts";
import {
  type ExitStatus,
  ManagedProcess,
  OutputTail,
  stripTerminalEscapes,
} from "../process/managed_process.ts";
import type { ProgramPath } from "../process/program.ts";

/** The version of the protocol between hosts and supervisors. */
const PROTOCOL = 1;

/** The address and the secret of a durable session. */
export interface SessionAddress {
  readonly id: string;
  readonly secret: string;
  /** The socket on which its supervisor listens. */
  readonly socket: string;
  /** The name of its launcher's place, if not this machine. */
  readonly where?: string | undefined;
}

export interface SupervisorOptions extends Omit<SessionAddress, "where"> {
  readonly python: ProgramPath;
  /** A folder that only the host sees, for its program. */
  readonly hostPrivate: string;
  /** The command that it starts; empty if it reaches another supervisor, which has started it. */
  readonly argv: readonly string[];
  readonly reach?: Reach | undefined;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** How long the session lasts without a host, in milliseconds. */
  readonly idleMs: number;
  /** How long it lasts in total. */
  readonly maxMs: number;
  /** A file that this process has locked, and whose lock the supervisor takes over. */
  readonly lock: string | null;
  /** Paths to remove when the session has ended. */
  readonly remove: readonly string[];
  /** The session's folder, which is also removed, unless the session was lost. */
  readonly folder: string;
}

/** The way to the supervisor beside a launcher elsewhere. */
export interface Reach {
  /** The command that runs `program` there, with what follows on its stdin. */
  readonly command: readonly string[];
  readonly program: string;
  /** The socket on which that supervisor listens, and its secret. */
  readonly socket: string;
  readonly secret: string;
  /**
   * The command that removes the place, and whether to run it at each end or only after failures.
   */
  readonly stop: readonly string[] | null;
  readonly made: boolean;
  /** Matches the command's last line if the place is gone. */
  readonly gone: string | null;
  /** How long the place may be unreachable. */
  readonly patience_seconds: number;
}

/** The time limit for a supervisor to listen. */
const START_MS = 30_000;

/** Starts a supervisor, which starts the session's command. */
export async function startSupervisor(options: SupervisorOptions): Promise<void> {
  const { python, hostPrivate, idleMs, maxMs, reach = null, ...spec } = options;
  const program = `${hostPrivate}/supervisor.py`;
  await Deno.writeTextFile(program, asset("launcher/supervisor.py"), { mode: 0o600 });
  await using process = ManagedProcess.spawn({
    command: python,
    args: ["-I", "-S", program],
    env: { LANG: "C.UTF-8" },
  });
  const settings = { ...spec, reach, idle_seconds: idleMs / 1000, max_seconds: maxMs / 1000 };
  await process.pipes.write(new TextEncoder().encode(JSON.stringify(settings)));
  await process.pipes.end();
  await settledWithin(process.exited, START_MS);
  const exit = await process.stop();
  if (exit.exitCode === 0) return;
  throw new GatewayStartError("The supervisor of the durable session did not start", {
    ...exit,
    stderrTail: process.stderrTail,
  });
}

const greetingSchema = z.object({
  protocol: z.number(),
  session: z.string(),
  epoch: z.number().int().nonnegative(),
});

export interface SessionStatus {
  /** How many times a host has attached. */
  readonly epoch: number;
  /** The process that the supervisor started; itself, if it reaches another supervisor. */
  readonly pid: number;
  readonly attached: boolean;
  /** Whether another host was detached for this one. */
  readonly tookOver: boolean;
  /** For how long no host has been attached. */
  readonly aloneMs: number | null;
  readonly stderr: string;
  /** The state that the previous host left for this one. */
  readonly kept: unknown;
  /** How long that host stayed attached after leaving that state. */
  readonly heldMs: number;
}

const welcomeSchema: z.ZodType<SessionStatus> = z.object({
  epoch: z.number(),
  pid: z.number(),
  attached: z.boolean(),
  tookOver: z.boolean(),
  aloneMs: z.number().nullable(),
  stderr: z.string(),
  kept: z.unknown(),
  heldMs: z.number(),
});

const refusedSchema = z.object({
  why: z.string(),
  protocol: z.number(),
  /** The process that has attached instead, if the system reports it. */
  pid: z.number().nullish(),
});

const noteSchema = z.object({ text: z.string() });

/** A session's supervisor does not answer: the session is over. */
export class SessionGoneError extends ConfigError {
  /** The name of the class. */
  override readonly name: string = "SessionGoneError";
}

/** A program other than its supervisor answers at a session's socket. */
export class GarbageError extends ConfigError {
  /** The name of the class. */
  override readonly name: string = "GarbageError";
}

/** The time limit for a supervisor to answer. */
const ANSWER_MS = 10_000;
/** The time limit for a session to end. */
const END_MS = 30_000;
/** The time limit for pending writes when the host leaves. */
const LEAVE_MS = 2000;
const BEAT_MS = 15_000;
/** How many heartbeats a supervisor may miss. A clock would also count the time in which this process was suspended. */
const MAX_SILENT = 3;

/** A launcher behind its supervisor. Closing the connection leaves the session running. */
export class SupervisedLauncher {
  readonly pipes: ByteStream;
  /** The session's status when this host was attached. */
  readonly status: SessionStatus;
  readonly #line: Line;
  readonly #address: SessionAddress;
  readonly #tail = new OutputTail();
  readonly #log: Logger;
  readonly #gone = Promise.withResolvers<void>();
  readonly #beat: ReturnType<typeof setInterval>;
  #silent = 0;
  #isEnding = false;
  #ending: KernelDiedError | undefined;

  private constructor(
    line: Line,
    { address, status, log }: {
      readonly address: SessionAddress;
      readonly status: SessionStatus;
      readonly log: Logger;
    },
  ) {
    this.#line = line;
    this.#address = address;
    this.status = status;
    this.#log = log;
    for (const text of status.stderr.split("\n")) if (text !== "") this.#tail.keep(text);
    this.#beat = setInterval(() => this.#keepAlive(), BEAT_MS);
    this.pipes = {
      closed: this.#gone.promise,
      read: () => this.#read(),
      // If it fails, the remaining input says why.
      write: (bytes) => this.#line.write(bytes).catch(() => {}),
      end: () => Promise.resolve(),
      close: () => this.#close(),
    };
  }

  /** Attaches to a session, and detaches any other host. */
  static async attach(address: SessionAddress, log: Logger): Promise<SupervisedLauncher> {
    const { line, answer } = await meet(address, "attach");
    return new SupervisedLauncher(line, { address, status: answer, log });
  }

  /** The name of its place, if not this machine. */
  get where(): string | undefined {
    return this.#address.where;
  }

  /** The process that the supervisor started. */
  get pid(): number {
    return this.status.pid;
  }

  /** The tail of stderr, without terminal escapes. */
  get stderrTail(): string {
    return this.#tail.text;
  }

  /** Why the session no longer belongs to this host, if the supervisor said so. */
  get ending(): KernelDiedError | undefined {
    return this.#ending;
  }

  /** Keeps state for the next host. */
  keep(kept: unknown): void {
    this.#send(json(FrameType.KEEP, { kept }));
  }

  /** Starts the command, once it is in its control groups, which are removed at the end. */
  begin(folders: readonly string[]): void {
    this.#send(json(FrameType.KEEP, { folders }));
  }

  /** Ends the session, unless it no longer belongs to this host. */
  async stop(): Promise<ExitStatus> {
    if (!this.#line.closed) {
      this.#isEnding = true;
      this.#send(encodeFrame(FrameType.END, 0));
      // The link reads to the end.
      if (!await settledWithin(this.#gone.promise, END_MS)) {
        this.#log.warn("A durable session did not end in time");
      }
      this.#close();
    }
    return { exitCode: null, signal: null };
  }

  /** Closes the connection after pending writes. The session continues. */
  async leave(): Promise<void> {
    await settledWithin(this.#line.written, LEAVE_MS);
    this.#close();
  }

  #close(): void {
    clearInterval(this.#beat);
    this.#line.close();
    this.#gone.resolve();
  }

  /** Sends without waiting. Failures are noticed when reading. */
  #send(bytes: Uint8Array): void {
    this.#line.write(bytes).catch(() => {});
  }

  #keepAlive(): void {
    if (++this.#silent > MAX_SILENT) {
      this.#ending = new KernelDiedError("The session's supervisor does not answer", UNKNOWN_EXIT);
      return this.#close();
    }
    this.#send(encodeFrame(FrameType.BEAT, 0));
  }

  /** The next frames of the launcher. */
  async #read(): Promise<Uint8Array | null> {
    for (;;) {
      const frames = await this.#line.next();
      if (frames === undefined) {
        if (!this.#line.closed && !this.#isEnding) this.#ending ??= await this.#fate();
        this.#close();
        return null;
      }
      this.#silent = 0;
      const own: Uint8Array[] = [];
      for (const frame of frames) {
        if (frame.type === FrameType.STDERR) this.#logLines(frame.payload);
        else own.push(...this.#take(frame));
      }
      if (own.length > 0) return joinBytes(...own);
    }
  }

  /** Why the supervisor closed the connection without a message; `undefined` if the session has ended. */
  async #fate(): Promise<KernelDiedError | undefined> {
    const status = await statusOf(this.#address).catch(() => undefined); // it has ended
    if (status === undefined) return undefined;
    if (status.epoch > this.status.epoch) return takenBy(undefined, this.#address);
    const { id } = this.#address;
    return new SessionTakenError(
      `Session ${id} continues without this program, which did not respond for too long; ` +
        `take it back with \`ipybox attach ${id}\``,
      UNKNOWN_EXIT,
    );
  }

  #take(frame: Frame): Uint8Array[] {
    switch (frame.type) {
      case FrameType.BEAT:
        return [];
      case FrameType.NOTE: {
        const { text } = parse(noteSchema, frame, this.#address);
        this.#log.warn(`${this.#address.where}: ${stripTerminalEscapes(text)}`);
        return [];
      }
      case FrameType.REFUSED: {
        const { why, pid } = parse(refusedSchema, frame, this.#address);
        if (why === "left") {
          if (this.#address.where !== undefined) this.#log.warn(leftBehind(this.#address));
          return [];
        }
        this.#ending = why === "taken"
          ? takenBy(pid, this.#address)
          : new SessionEndedError(why === "time" ? TIME_OVER : ENDED, UNKNOWN_EXIT);
        return [];
      }
      default:
        return [encodeFrame(frame.type, frame.stream, frame.payload)];
    }
  }

  /** Logs the next bytes of stderr. */
  #logLines(bytes: Uint8Array): void {
    for (const line of this.#tail.push(bytes)) this.#log.debug(`gateway: ${line}`);
  }
}

export async function statusOf(address: SessionAddress): Promise<SessionStatus> {
  const { line, answer } = await meet(address, "status");
  line.close();
  return answer;
}

/** The other side of a session could not be ended. */
export class LeftBehindError extends ConfigError {
  /** The name of the class. */
  override readonly name: string = "LeftBehindError";
}

function leftBehind({ id, where }: SessionAddress): string {
  return `Session ${id} has ended here, but ${where} could not be reached: its processes there will exit ` +
    "once the session's idle time is over";
}

/** Ends a session, whether or not a host is attached. */
export async function endSession(address: SessionAddress): Promise<void> {
  const line = await Line.open(address);
  try {
    await greet(line, address, "end");
    const ended = (async () => {
      let isLeft = false;
      for (let frames = await line.next(); frames !== undefined; frames = await line.next()) {
        for (const frame of frames) {
          if (frame.type !== FrameType.REFUSED) continue;
          isLeft ||= parse(refusedSchema, frame, address).why === "left";
        }
      }
      return isLeft;
    })();
    if (!await settledWithin(ended, END_MS)) throw unanswered(address, END_MS);
    if (await ended && address.where !== undefined) throw new LeftBehindError(leftBehind(address));
  } catch (error) {
    throw error instanceof LinkError ? garbage(address, error) : error;
  } finally {
    line.close();
  }
}

async function meet(
  address: SessionAddress,
  want: "attach" | "status",
): Promise<{ readonly line: Line; readonly answer: SessionStatus }> {
  const line = await Line.open(address);
  try {
    await greet(line, address, want);
    const frame = await line.one();
    if (frame?.type === FrameType.WELCOME) {
      return { line, answer: parse(welcomeSchema, frame, address) };
    }
    if (frame?.type !== FrameType.REFUSED) throw garbage(address);
    throw refusal(parse(refusedSchema, frame, address), address);
  } catch (error) {
    line.close();
    throw error instanceof LinkError ? garbage(address, error) : error;
  }
}

/** Introduces this host. The session's epoch decides between hosts that attach at the same time. */
async function greet(line: Line, address: SessionAddress, want: string): Promise<void> {
  const frame = await line.one();
  if (frame?.type !== FrameType.GREETING) throw garbage(address);
  const { protocol, session, epoch } = parse(greetingSchema, frame, address);
  if (protocol !== PROTOCOL) throw refusal({ why: "protocol", protocol }, address);
  if (session !== address.id) throw garbage(address);
  const { secret } = address;
  await line.write(json(FrameType.HELLO, { protocol, secret, want, epoch: epoch + 1 }));
}

const ENDED = "The session was ended by another program";
const TIME_OVER = "The session has reached its maximum lifetime";
const UNKNOWN_EXIT = { exitCode: null, signal: null, stderrTail: "" };

function takenBy(pid: number | null | undefined, { id }: SessionAddress): SessionTakenError {
  const which = pid == null ? "Another program" : `Another program, process ${pid},`;
  return new SessionTakenError(
    `${which} has attached to session ${id}, which continues there; ` +
      `take it back with \`ipybox attach ${id}\``,
    UNKNOWN_EXIT,
  );
}

function refusal(
  { why, protocol }: z.infer<typeof refusedSchema>,
  { id }: SessionAddress,
): ConfigError {
  switch (why) {
    case "secret":
      return new ConfigError(
        `Cannot attach to session ${id}: the secret in its record does not match; ` +
          "the record was changed, so end its processes and start another session",
      );
    case "protocol":
      return new ConfigError(
        `Cannot attach to session ${id}: it was started by another version of ipybox ` +
          `(protocol ${protocol}, this one has ${PROTOCOL}); use that version`,
      );
    default:
      return new ConfigError(
        `Cannot attach to session ${id}: another host attached to it at the same time; try again`,
      );
  }
}

function unanswered({ id, socket }: SessionAddress, timeoutMs: number): ConfigError {
  return new ConfigError(
    `The supervisor of session ${id}, at ${socket}, has not answered for ${timeoutMs / 1000} s; ` +
      "try again, or end its process",
  );
}

function garbage({ id, socket }: SessionAddress, cause?: unknown): GarbageError {
  return new GarbageError(
    `Cannot attach to session ${id}: what answers at ${socket} is not its supervisor; ` +
      `remove it with \`ipybox sessions end ${id}\``,
    { cause },
  );
}

function parse<T>(schema: z.ZodType<T>, frame: Frame, address: SessionAddress): T {
  try {
    return schema.parse(JSON.parse(new TextDecoder().decode(frame.payload)));
  } catch (cause) {
    throw garbage(address, cause);
  }
}

function json(type: FrameType, content: unknown): Uint8Array {
  return encodeFrame(type, 0, new TextEncoder().encode(JSON.stringify(content)));
}

/** A connection to a supervisor: frames in both directions, each written whole. */
class Line {
  readonly #connection: Deno.UnixConn;
  readonly #address: SessionAddress;
  readonly #decoder = new FrameDecoder();
  #waiting: Frame[] = [];
  #writing: Promise<void> = Promise.resolve();
  #closed = false;

  private constructor(connection: Deno.UnixConn, address: SessionAddress) {
    this.#connection = connection;
    this.#address = address;
  }

  static async open(address: SessionAddress): Promise<Line> {
    const { id, socket } = address;
    try {
      return new Line(await Deno.connect({ transport: "unix", path: socket }), address);
    } catch (cause) {
      if (cause instanceof Deno.errors.NotCapable) throw cause;
      const { ConnectionRefused, NotFound, PermissionDenied } = Deno.errors;
      const isGone = cause instanceof NotFound || cause instanceof ConnectionRefused ||
        cause instanceof TypeError; // an old record, whose path is too long for a socket
      if (!isGone) {
        const why = cause instanceof PermissionDenied ? "it belongs to another user" : cause;
        throw new ConfigError(
          `Cannot attach to session ${id}: cannot connect to ${socket}: ${why}`,
          { cause },
        );
      }
      throw new SessionGoneError(
        `Session ${id} is lost: its processes have ended, and its variables with them; ` +
          `forget it with \`ipybox sessions end ${id}\``,
        { cause },
      );
    }
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Resolves when all pending writes have finished or failed. */
  get written(): Promise<void> {
    return this.#writing;
  }

  /** The next frames; `undefined` at the end of the connection. */
  async next(): Promise<Frame[] | undefined> {
    while (this.#waiting.length === 0) {
      const buffer = new Uint8Array(CHUNK);
      const count = await this.#connection.read(buffer).catch(() => null);
      if (count === null) return undefined;
      this.#waiting = [...this.#decoder.push(buffer.subarray(0, count))];
    }
    const frames = this.#waiting;
    this.#waiting = [];
    return frames;
  }

  /** The next frame, within the time limit. */
  async one(): Promise<Frame | undefined> {
    const frames = this.next();
    if (!await settledWithin(frames, ANSWER_MS)) throw unanswered(this.#address, ANSWER_MS);
    const [first, ...others] = await frames ?? [];
    this.#waiting = others;
    return first;
  }

  /** Writes bytes after those that were written before. */
  write(bytes: Uint8Array): Promise<void> {
    const writing = this.#writing.then(async () => {
      for (let at = 0; at < bytes.length;) at += await this.#connection.write(bytes.subarray(at));
    });
    this.#writing = writing.catch(() => {}); // its caller gets the error
    return writing;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#connection.close();
  }
}
