import { basename } from "node:path";
import { readHostileBytes } from "../mcp/hostile_files.ts";

/** A file that a cell has left: its whole output, or an image. */
export interface Artifact {
  /** Where it is as a resource. */
  readonly uri: string;
  /** The file. */
  readonly path: string;
  readonly mimeType: string;
  /** What it is, in words. */
  readonly title: string;
}

/** What an artifact is: part of its address. */
export type ArtifactKind = "outputs" | "images";

/** How many are known; the files of older ones stay. */
const MAX_ARTIFACTS = 500;
/** The largest that is sent as a resource. */
const MAX_BYTES = 32 * 2 ** 20;

const MIME_TYPES: Readonly<Record<string, string>> = {
  txt: "text/plain",
  png: "image/png",
  jpg: "image/jpeg",
  svg: "image/svg+xml",
};

/** The files that a session's cells have left, as resources. */
export class Artifacts {
  readonly #artifacts = new Map<string, Artifact>();
  /** The latest of one kind, newest first. */
  list(kind: ArtifactKind): Artifact[] {
    return [...this.#artifacts.values()]
      .filter(({ uri }) => uri.startsWith(`ipybox://${kind}/`)).reverse();
  }

  /** Makes a file a resource. */
  add(kind: ArtifactKind, path: string, title: string): Artifact {
    const name = basename(path);
    const uri = `ipybox://${kind}/${name}`;
    const mimeType = MIME_TYPES[name.split(".").at(-1) ?? ""] ?? "application/octet-stream";
    const artifact = { uri, path, mimeType, title };
    this.#artifacts.set(uri, artifact);
    const [oldest] = this.#artifacts.keys();
    if (this.#artifacts.size > MAX_ARTIFACTS && oldest !== undefined) {
      this.#artifacts.delete(oldest);
    }
    return artifact;
  }

  /** Reads one. Executed code may have changed its file since. */
  async read(
    uri: string,
  ): Promise<{ artifact: Artifact; bytes: Uint8Array<ArrayBuffer> } | undefined> {
    const artifact = this.#artifacts.get(uri);
    if (artifact === undefined) return undefined;
    const bytes = await readHostileBytes(artifact.path, MAX_BYTES);
    if (bytes !== undefined) return { artifact, bytes };
    throw new Error(
      `Cannot send ${artifact.path}: it is gone or larger than ${MAX_BYTES / 2 ** 20} MiB; ` +
        "read a part of it in a cell",
    );
  }
}
