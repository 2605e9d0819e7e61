/**
 * MCP clients that are programs: one call, one process.
 *
 * @module
 */
import { z } from "zod";
import type { End } from "./interop.ts";
import type { HttpAddress } from "./mcp_client.ts";
import type { ProgramEnd } from "../../src/process/run_program.ts";
import { runProgram } from "./program.ts";
import { TempFolder } from "./temp_folder.ts";
import { denoDirectory } from "./temp_cache.ts";

/** The server that a program starts, or the one that runs. */
export type ServerToCall = { readonly command: readonly string[] } | HttpAddress;

/** A program that is an MCP client. */
export interface CommandLineClient {
  readonly name: string;
  /** Lists the tools' names. */
  list(server: ServerToCall): Promise<string[]>;
  /** Calls a tool. */
  call(server: ServerToCall, tool: string, args: Record<string, unknown>): Promise<End>;
}

const listed = z.object({ tools: z.array(z.object({ name: z.string() })) });
const called = z.object({
  content: z.array(
    z.looseObject({
      type: z.string(),
      text: z.string().optional(),
      mimeType: z.string().optional(),
    }),
  ),
  isError: z.boolean().default(false),
});

/** The MCP Inspector, with what it depends on as of a day when all of that could be installed. */
export const INSPECTOR: readonly string[] = [
  "--minimum-dependency-age=2026-11-20",
  "npm:@modelcontextprotocol/inspector@2.12.0",
];

/** The MCP Inspector's command line, in an era of the protocol. */
export function inspector(era: "legacy" | "modern"): CommandLineClient {
  const run = async (server: ServerToCall, args: readonly string[]) => {
    const options = ["--protocol-era", era, "--format", "json", "--quiet"];
    const target = "command" in server
      ? ["--", ...server.command]
      : ["--server-url", server.url.href, "--header", `Authorization: Bearer ${server.token}`];
    const { stdout } = await runFromNpm([...INSPECTOR, "--cli", ...args, ...options, ...target]);
    return z.object({ result: z.unknown() }).parse(JSON.parse(stdout)).result;
  };
  return {
    name: `Inspector ${era}`,
    list: async (server) =>
      listed.parse(await run(server, ["--method", "tools/list"])).tools.map(({ name }) => name),
    call: async (server, tool, args) => {
      const json = JSON.stringify(args);
      const { content, isError } = called.parse(
        await run(server, [
          ...["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json],
        ]),
      );
      const images = content.filter(({ type }) => type === "image");
      return {
        isError,
        text: content.flatMap(({ text = "" }) => text === "" ? [] : [text]).join("\n"),
        images: images.map(({ mimeType = "" }) => mimeType),
      };
    },
  };
}

/** `mcporter`. It tells errors by its exit code, and saves images to files. */
export const mcporter: CommandLineClient = {
  name: "mcporter",
  list: async (server) => {
    const { stdout } = await runMcporter(server, ["list", "ipybox", "--json"]);
    return listed.parse(JSON.parse(stdout)).tools.map(({ name }) => name);
  },
  call: async (server, tool, args) => {
    await using images = await TempFolder.create();
    const { code, stdout } = await runMcporter(server, [
      ...["call", `ipybox.${tool}`, "--args", JSON.stringify(args)],
      ...["--output", "text", "--save-images", images.path],
    ]);
    const types: string[] = [];
    for await (const { name } of Deno.readDir(images.path)) {
      types.push(`image/${name.split(".").at(-1)}`);
    }
    return { isError: code !== 0, text: stdout.trim(), images: types };
  },
};

async function runMcporter(server: ServerToCall, args: readonly string[]): Promise<ProgramEnd> {
  await using folder = await TempFolder.create();
  const config = `${folder.path}/mcporter.json`;
  const ipybox = "command" in server
    ? { command: server.command[0], args: server.command.slice(1) }
    : { baseUrl: server.url.href, headers: { Authorization: `Bearer ${server.token}` } };
  await Deno.writeTextFile(config, JSON.stringify({ mcpServers: { ipybox } }));
  return await runFromNpm(["npm:mcporter@0.12.3", "--config", config, ...args]);
}

/** Runs a program from npm in a home of its own: these read and write files there. */
async function runFromNpm(args: readonly string[]): Promise<ProgramEnd> {
  await using home = await TempFolder.create();
  const deno = ["run", "-A", "--quiet", "--no-config", "--no-lock", ...args];
  const env = { HOME: home.path, DENO_DIR: await denoDirectory(), NO_COLOR: "1" };
  const end = await runProgram(Deno.execPath(), deno, { cwd: home.path, env });
  if (end.stdout === "") throw new Error(`${args[0]} gave nothing: ${end.stderr}`);
  return end;
}
