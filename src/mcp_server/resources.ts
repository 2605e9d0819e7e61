/** The resources that a client can read: generated APIs, and files that cells produced. */
import { basename, join } from "node:path";
import { readInside } from "../files/safe.ts";
import type { Artifact, ArtifactKind } from "./images.ts";
import {
  type ListResourcesResult,
  type ReadResourceResult,
  ResourceNotFoundError,
  ResourceTemplate,
  type SdkMcpServer,
} from "./sdk.ts";
import type { Session } from "./session.ts";

export function registerResources(server: SdkMcpServer, session: Session): void {
  registerSources(server, session);
  registerSchemas(server, session);
  registerArtifacts(server, session, "outputs", {
    title: "Whole outputs",
    description: "The full output of cells whose text was cut",
  });
  registerArtifacts(server, session, "images", {
    title: "Images",
    description: "The images of cells in full size",
  });
}

function registerSources(server: SdkMcpServer, session: Session): void {
  const template = new ResourceTemplate("mcptools://{server}/{module}.py", {
    // Only an overview of each server, because the list would be long. Templates complete the others.
    list: () =>
      listed(session, (name) => ({
        uri: `mcptools://${name}/__init__.py`,
        name: `mcptools/${name}/__init__.py`,
        title: `Tools of ${name}`,
        description: `Overview of the Python API of the MCP server "${name}"`,
        mimeType: "text/x-python",
      })),
    complete: {
      server: (begun) => completeServer(session, begun),
      module: async (begun, context) => {
        const name = context?.arguments?.server ?? "";
        if (!(await session.servers()).includes(name)) return [];
        const { tools } = await session.searchTools("", [name]);
        return tools.map(({ module }) => module).filter((module) => module.startsWith(begun));
      },
    },
  });
  const config = {
    title: "Python API of a tool",
    description: "The generated Python module of one tool, or __init__.py for a server's overview",
    mimeType: "text/x-python",
  };
  server.registerResource("api", template, config, async (uri, { server: name, module }) => {
    if (!/^\w+$/.test(String(module))) throw new ResourceNotFoundError(uri.href);
    return await readSource(session, uri, String(name), `${module}.py`);
  });
}

function registerSchemas(server: SdkMcpServer, session: Session): void {
  const template = new ResourceTemplate("mcptools://{server}/schema.json", {
    list: () =>
      listed(session, (name) => ({
        uri: `mcptools://${name}/schema.json`,
        name: `mcptools/${name}/schema.json`,
        title: `Definitions of ${name}`,
        description: `The tools of the MCP server "${name}" with their JSON schemas`,
        mimeType: "application/json",
      })),
    complete: { server: (begun) => completeServer(session, begun) },
  });
  const config = {
    title: "Definitions of a server's tools",
    description: "The tools that an MCP server lists, with their JSON schemas",
    mimeType: "application/json",
  };
  server.registerResource("schema", template, config, async (uri, { server: name }) => {
    return await readSource(session, uri, String(name), "schema.json");
  });
}

function registerArtifacts(
  server: SdkMcpServer,
  session: Session,
  kind: ArtifactKind,
  config: { readonly title: string; readonly description: string },
): void {
  const all = () => session.artifacts.list(kind);
  const template = new ResourceTemplate(`ipybox://${kind}/{file}`, {
    list: () => ({ resources: all().slice(0, MAX_LISTED).map(resourceOf) }),
    complete: {
      file: (begun) =>
        all().map(({ path }) => basename(path)).filter((name) => name.startsWith(begun)),
    },
  });
  server.registerResource(kind, template, config, async (uri) => {
    const found = await session.artifacts.read(uri.href);
    if (found === undefined) throw new ResourceNotFoundError(uri.href);
    const { mimeType, content } = found;
    return { contents: [{ uri: uri.href, mimeType, ...content }] };
  });
}

/** How many of the newest outputs and images are listed. */
const MAX_LISTED = 50;

type Listed = ListResourcesResult["resources"][number];

async function listed(
  session: Session,
  describe: (server: string) => Listed,
): Promise<ListResourcesResult> {
  const root = await session.mcptools();
  const resources: Listed[] = [];
  for (const name of await session.servers()) {
    const hasApi = await Deno.lstat(join(root, name, "schema.json")).then(() => true, () => false);
    if (hasApi) resources.push(describe(name));
  }
  return { resources };
}

function resourceOf({ uri, path, title, mimeType }: Artifact): Listed {
  return { uri, name: basename(path), title, mimeType, description: path };
}

async function completeServer(session: Session, begun: string): Promise<string[]> {
  return (await session.servers()).filter((name) => name.startsWith(begun));
}

const MAX_SOURCE = 4 * 2 ** 20;

async function readSource(
  session: Session,
  uri: URL,
  server: string,
  file: string,
): Promise<ReadResourceResult> {
  // Registered names are checked, so they cannot lead to another folder.
  const isKnown = (await session.servers()).includes(server);
  const bytes = isKnown
    ? await readInside(await session.mcptools(), [server, file], MAX_SOURCE) // follows no link
    : undefined;
  if (bytes === undefined) throw new ResourceNotFoundError(uri.href);
  const mimeType = file.endsWith(".py") ? "text/x-python" : "application/json";
  return { contents: [{ uri: uri.href, mimeType, text: new TextDecoder().decode(bytes) }] };
}
