/**
 * The hosts that serve a package index's files, often not the index's own.
 *
 * @module
 */
import { z } from "zod";
import { anySignal } from "../base/signals.ts";
import { bodyOf } from "../base/http.ts";
import { readWhole } from "../base/bytes.ts";
import { type Logger, silentLogger } from "../base/log.ts";
import { isPublicHost, normalized } from "./requirement.ts";

/** Options of {@linkcode fileHosts}. */
export interface FileHostsOptions {
  readonly signal?: AbortSignal;
  /** A file of additional certificates to trust. */
  readonly certificates?: string;
  /** Receives warnings about indexes that do not answer. */
  readonly log?: Logger;
  /** Called with each such index. */
  readonly onSilent?: (index: string) => void;
}

/** The time limit for an index to answer. */
const TIMEOUT_MS = 15_000;
/** The longest page to read. */
const MAX_BYTES = 32 * 2 ** 20;
const JSON_PAGE = "application/vnd.pypi.simple.v1+json";

const jsonPage = z.object({ files: z.array(z.unknown()) });
const jsonFile = z.object({ url: z.string() });

/**
 * Asks package indexes which hosts serve a package's files (PEP 503 and PEP 691). A page can name any
 * host, so only public names and the index's own host count: others would open this machine and its
 * network to what is built.
 */
export async function fileHosts(
  indexes: readonly string[],
  name: string,
  options: FileHostsOptions = {},
): Promise<string[]> {
  const { signal, certificates, log = silentLogger, onSilent = () => {} } = options;
  using client = await clientTrusting(certificates, log);
  const found = await Promise.all(indexes.map(async (index) => {
    try {
      return await hostsAt(
        new URL(`${withoutSlashes(index)}/${normalized(name)}/`),
        client,
        signal,
      );
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof Deno.errors.NotCapable) throw error; // it names the host that is missing
      const place = URL.parse(index)?.origin ?? "an index that is not a URL";
      log.warn(`Cannot ask ${place} for ${normalized(name)} (offline?): ${error}`);
      onSilent(index);
      return [];
    }
  }));
  return [...new Set(found.flatMap((hosts) => [...hosts]))].sort();
}

function withoutSlashes(url: string): string {
  let end = url.length;
  while (url[end - 1] === "/") end--;
  return url.slice(0, end);
}

/** Trusts the installer's CAs, such as a company's own that Deno does not know. */
async function clientTrusting(
  certificates: string | undefined,
  log: Logger,
): Promise<Deno.HttpClient> {
  if (certificates === undefined) return Deno.createHttpClient({});
  try {
    return Deno.createHttpClient({ caCerts: [await Deno.readTextFile(certificates)] });
  } catch (error) {
    log.warn(`Cannot use the certificates configured for the installer: ${error}`);
    return Deno.createHttpClient({});
  }
}

async function hostsAt(
  page: URL,
  client: Deno.HttpClient,
  signal: AbortSignal | undefined,
): Promise<Set<string>> {
  const { username, password } = page;
  const headers = new Headers({ accept: `${JSON_PAGE}, text/html;q=0.5` });
  if (username !== "") {
    const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    headers.set("authorization", `Basic ${new TextEncoder().encode(pair).toBase64()}`);
    page.username = page.password = "";
  }
  const stop = anySignal(AbortSignal.timeout(TIMEOUT_MS), signal);
  const response = await fetch(page, { headers, client, signal: stop });
  const bytes = await readWhole(bodyOf(response, stop), {
    maxBytes: MAX_BYTES,
    tooLong: () => new Error(`its page exceeds ${MAX_BYTES} bytes`),
  });
  if (response.status === 404) return new Set(); // it does not have the package
  if (!response.ok) throw new Error(`${page.origin} answers with ${response.status}`);
  const type = response.headers.get("content-type") ?? "";
  const links = type.startsWith(JSON_PAGE) ? linksInJson(bytes) : linksInHtml(bytes);
  const hosts = new Set<string>();
  for (const link of links) {
    const url = URL.parse(link, response.url);
    if (url === null || !/^https?:$/.test(url.protocol)) continue;
    if (isPublicHost(url.hostname) || url.hostname === page.hostname) hosts.add(url.hostname);
  }
  return hosts;
}

function* linksInJson(bytes: Uint8Array): Generator<string> {
  const { files } = jsonPage.parse(JSON.parse(new TextDecoder().decode(bytes)));
  for (const file of files) yield jsonFile.parse(file).url;
}

function* linksInHtml(bytes: Uint8Array): Generator<string> {
  for (const [tag] of new TextDecoder().decode(bytes).matchAll(/<a\s[^<>]*/gi)) {
    yield /href="([^"]*)"/i.exec(tag)?.[1] ?? "";
  }
}
