/**
 * Starts a launcher on the other side of a command: the host sends a program that unpacks ours there
 * and becomes the launcher on the same stdin and stdout. The other side's messages are as hostile as
 * executed code's.
 *
 * @module
 */
import { z } from "zod";
import { asset } from "../assets/mod.ts";
import { joinBytes } from "../base/bytes.ts";
import { EnvironmentNotReadyError } from "../base/errors.ts";
import { abortable } from "../base/signals.ts";
import type { ByteStream } from "../base/streams.ts";
import { sha256 } from "../json/digest.ts";
import type { WallOrder } from "../sandbox/wall.ts";

/** Reads a program up to a NUL and runs it. This is the whole command line. */
const READ_PROGRAM =
  `import os,sys;exec(b"".join(iter(lambda:os.read(0,1)or sys.exit("No host"),b"\\0")))`;

/** The command that waits for the host. Without `-S`, Python would import files that code may have written. */
export function bootCommand(python: string): string[] {
  return [python, "-I", "-S", "-c", READ_PROGRAM];
}

const path = z.string().startsWith("/").max(4096);

const factsSchema = z.object({
  ipybox: z.literal(1),
  /** Python's name for the system. */
  system: z.string().max(100),
  machine: z.string().max(100),
  version: z.tuple([z.number(), z.number()]),
  python: path,
  checker: path.nullable(),
  missing: z.array(z.string().regex(/^[\w-]{1,100}$/)).max(100),
  /** The hash of the requirements that an image was built from. */
  requirements: z.string().max(100).nullable(),
  /** Whether the image has our programs. */
  has: z.boolean(),
  bwrap: path.nullable(),
  /** The resources that are limited for all processes there together. */
  bounds: z.array(z.enum(["memory", "processes"])).max(2).catch([]),
  /** The API server of the cluster that it is in. */
  apiServer: z.tuple([z.union([z.ipv4(), z.ipv6()]), z.number().int().min(1).max(65535)])
    .nullable().catch(null),
  /** The address of the node that it is on. */
  node: z.union([z.ipv4(), z.ipv6()]).nullable().catch(null),
});

/** The other side's report. */
export type Facts = z.infer<typeof factsSchema>;

/** The folder of our programs in images. */
export const IMAGE_PROGRAMS = "/opt/ipybox/programs";

/** The expected mounts, if the other side has this machine's kernel. */
export interface SeenMounts {
  /** Identifies the running kernel. */
  readonly kernel: string;
  /** The mount point and the identity of each file or folder. */
  readonly files: readonly (readonly [point: string, device: number, inode: number])[];
}

/** Instructions for the other side. */
interface BootAnswer {
  /** The session's folder, which it creates. */
  readonly root: string;
  /** The mounts to verify, if that is possible. */
  readonly mounts: SeenMounts | null;
  /** Other folders to create. */
  readonly folders: readonly string[];
  /** The folder of our programs. */
  readonly programs: string;
  /** The targets of the launcher's self-test. */
  readonly probe: unknown;
  /** Whether to move to its own network namespace, if the system allows that. */
  readonly leavesNetwork: boolean;
  /** The system call filter; empty for none. */
  readonly filter: Uint8Array;
  /** The contents of bubblewrap's sandbox, if it is used. */
  readonly wall: WallOrder | null;
  /** The settings of the supervisor there, which keeps the launcher of a durable session. */
  readonly supervisor: {
    readonly id: string;
    /** Its own folder, which it creates. */
    readonly folder: string;
    readonly socket: string;
    readonly secret: string;
    readonly idle_seconds: number;
    readonly max_seconds: number;
  } | null;
}

interface TextFile {
  readonly path: string;
  readonly text: string;
}

/** The host's half of the boot. */
export class Boot {
  readonly #pipes: ByteStream;
  readonly #programs: readonly TextFile[];
  readonly #deadline: AbortSignal;

  /** @param pipes The command's stdin and stdout. */
  constructor(
    pipes: ByteStream,
    options: { readonly programs: readonly TextFile[]; readonly deadline: AbortSignal },
  ) {
    this.#pipes = pipes;
    this.#programs = options.programs;
    this.#deadline = options.deadline;
  }

  /** Sends the boot program and reads its report; `undefined` if the command has ended. */
  async begin(): Promise<Facts | undefined> {
    const order = JSON.stringify({ digest: digestOf(this.#programs) });
    await this.#write(
      new TextEncoder().encode(
        `${asset("sandbox/wall.py")}\n${asset("launcher/boot.py")}\0${order}\n`,
      ),
    );
    const line = await abortable(lineOf(this.#pipes), this.#deadline);
    if (line === "") return undefined;
    try {
      return factsSchema.parse(JSON.parse(line));
    } catch (cause) {
      throw new EnvironmentNotReadyError(
        `Something other than ipybox's programs answered: ${JSON.stringify(line.slice(0, 200))}`,
        "If a shell there prints something at start-up, let only interactive shells do that",
        { cause },
      );
    }
  }

  /** Turns the boot program into the launcher. */
  async finish({ filter, ...answer }: BootAnswer, { has }: Facts): Promise<void> {
    const archive = has ? new Uint8Array(0) : await archiveOf(this.#programs);
    const line = JSON.stringify({ ...answer, filter: filter.toHex(), size: archive.length });
    await this.#write(joinBytes(new TextEncoder().encode(`${line}\n`), archive));
  }

  /** Waits until the supervisor listens, and returns whether it does. */
  async held(): Promise<boolean> {
    const line = await abortable(lineOf(this.#pipes), this.#deadline);
    return line.trim() === '{"held": true}';
  }

  async #write(bytes: Uint8Array): Promise<void> {
    // If it has already ended, its stderr says why.
    await abortable(this.#pipes.write(bytes).catch(() => {}), this.#deadline);
  }
}

const NEWLINE = 10;
const MAX_LINE = 1 << 16;

/** The single line that the other side sends; empty if it has ended. */
async function lineOf(stream: ByteStream): Promise<string> {
  let bytes = new Uint8Array(0);
  while (!bytes.includes(NEWLINE) && bytes.length < MAX_LINE) {
    const next = await stream.read();
    if (next === null) break;
    bytes = joinBytes(bytes, next);
  }
  return new TextDecoder().decode(bytes);
}

function digestOf(files: readonly TextFile[]): string {
  const encoder = new TextEncoder();
  const sorted = files.toSorted((one, other) => one.path < other.path ? -1 : 1);
  return sha256(joinBytes(...sorted.flatMap(({ path, text }) => {
    const data = encoder.encode(text);
    return [encoder.encode(`${path}\n${data.length}\n`), data];
  })));
}

export async function archiveOf(files: readonly TextFile[]): Promise<Uint8Array<ArrayBuffer>> {
  const texts = Object.fromEntries(files.map(({ path, text }) => [path, text]));
  const packed = new Blob([JSON.stringify(texts)]).stream()
    .pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(packed).arrayBuffer());
}
