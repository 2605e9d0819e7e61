/**
 * Which package index uv uses on this machine: for a Python that has no pip of its own.
 *
 * @module
 */
import { join } from "node:path";
import { parse } from "@std/toml";
import { z } from "zod";
import { ConfigError } from "../errors.ts";
import { hostsOfUrls, type IndexSettings, pathsOf, words } from "./index_settings.ts";

const urls = z.union([z.string(), z.array(z.string())]).optional();
const table = {
  "index-url": z.string().optional(),
  "extra-index-url": urls,
  "find-links": urls,
  "no-index": z.boolean().optional(),
};
const configSchema: z.ZodType<UvConfig> = z.object({
  ...table,
  index: z.array(z.object({ url: z.string(), default: z.boolean().default(false) })).optional(),
  pip: z.object(table).optional(),
});

/** The part of a `uv.toml` that says where packages come from. */
export interface UvConfig extends UvTable {
  /** Indexes by the newer spelling. */
  readonly index?: readonly { readonly url: string; readonly default: boolean }[] | undefined;
  /** The same for `uv pip` only. */
  readonly pip?: UvTable | undefined;
}

/** Options that are in two places of a `uv.toml`. */
export interface UvTable {
  readonly "index-url"?: string | undefined;
  readonly "extra-index-url"?: string | readonly string[] | undefined;
  readonly "find-links"?: string | readonly string[] | undefined;
  readonly "no-index"?: boolean | undefined;
}

/** Reads what uv is configured to: by `uv.toml` files and by `UV_…` variables, which count more. */
export async function readUvSettings(
  env: Readonly<Record<string, string>>,
  main: string,
): Promise<IndexSettings> {
  const { HOME, XDG_CONFIG_HOME, UV_CONFIG_FILE } = env;
  const folder = XDG_CONFIG_HOME ?? (HOME === undefined ? undefined : join(HOME, ".config"));
  const files = UV_CONFIG_FILE !== undefined
    ? [UV_CONFIG_FILE]
    : ["/etc/uv/uv.toml", ...(folder === undefined ? [] : [join(folder, "uv", "uv.toml")])];
  return uvSettings(await Promise.all(files.map(readConfig)), env, main);
}

/** Combines what uv is configured to. */
export function uvSettings(
  configs: readonly UvConfig[],
  env: Readonly<Record<string, string>>,
  fallback: string,
): IndexSettings {
  let main = fallback;
  let extra: string[] = [];
  let links: string[] = [];
  let isOffline = false;
  for (const config of configs) {
    for (const level of [config, config.pip ?? {}]) {
      main = level["index-url"] ?? main;
      extra = listOf(level["extra-index-url"]) ?? extra;
      links = listOf(level["find-links"]) ?? links;
      isOffline = level["no-index"] ?? isOffline;
    }
    for (const { url, default: isMain } of config.index ?? []) {
      if (isMain) main = url;
      else extra.push(url);
    }
  }
  main = env.UV_DEFAULT_INDEX ?? env.UV_INDEX_URL ?? main;
  const named = words(env.UV_INDEX ?? env.UV_EXTRA_INDEX_URL);
  if (named.length > 0) extra = named.map((word) => word.replace(/^[\w.-]+=(?=https?:)/, ""));
  if (env.UV_FIND_LINKS !== undefined) links = env.UV_FIND_LINKS.split(/[,\s]+/);
  links = links.filter((link) => link !== "");
  const certificates = env.SSL_CERT_FILE;
  return {
    indexes: isOffline ? [] : [main, ...extra],
    hosts: hostsOfUrls(isOffline ? links : [main, ...extra, ...links]),
    paths: pathsOf(certificates === undefined ? links : [...links, certificates]),
    certificates,
    env: {
      UV_LINK_MODE: "copy",
      UV_NO_CONFIG: "1",
      UV_PYTHON_DOWNLOADS: "never",
      UV_DEFAULT_INDEX: main,
      ...(extra.length === 0 ? {} : { UV_INDEX: extra.join(" ") }),
      ...(links.length === 0 ? {} : { UV_FIND_LINKS: links.join(",") }),
      ...(isOffline ? { UV_NO_INDEX: "1" } : {}),
      ...(certificates === undefined ? {} : { SSL_CERT_FILE: certificates }),
    },
    file: undefined,
  };
}

function listOf(value: string | readonly string[] | undefined): string[] | undefined {
  return typeof value === "string" ? [value] : value && [...value];
}

async function readConfig(path: string): Promise<UvConfig> {
  let text: string;
  try {
    text = await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return {};
    throw error;
  }
  try {
    return configSchema.parse(parse(text));
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(`Cannot read uv's configuration ${path}: ${reason}`, { cause });
  }
}
