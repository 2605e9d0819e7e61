/**
 * The MCP TypeScript SDK, in its two lines and both eras of the protocol, over HTTP. On stdio it is the
 * client of most tests.
 */
import { assertRejects } from "@std/assert";
import { HttpMcp } from "../support/http_mcp.ts";
import {
  CELL,
  CELLS,
  checkTranscript,
  type End,
  REGISTRATION,
  type Transcript,
} from "../support/interop.ts";
import { CLIENT_KINDS, McpHost, type ToolEnd } from "../support/mcp_client.ts";
import { TempFolder } from "../support/temp_folder.ts";

Deno.test("TypeScript SDK with ipybox mcp over HTTP", async (t) => {
  await using workspace = await TempFolder.create();
  await using server = await HttpMcp.start([
    "--workspace",
    workspace.path,
    "--allow-registrations",
    "--no-sandbox",
  ]);
  for (const kind of CLIENT_KINDS) {
    await t.step(kind, async () => {
      const asked: string[] = [];
      await using host = await McpHost.join(server.address, {
        kind,
        answer: (question) => {
          asked.push(question);
          return asked.length === 1 ? "allow" : "allow once";
        },
      });
      checkTranscript(await transcriptOf(host, asked));
    });
  }
});

async function transcriptOf(host: McpHost, asked: string[]): Promise<Transcript> {
  const cell = async (code: string) => endOf(await host.call(CELL, { code }));
  const tools = (await host.tools()).map(({ name }) => name);
  const registered = endOf(await host.call("register_mcp_server", REGISTRATION));
  const composed = await cell(CELLS.composed);
  const image = await cell(CELLS.image);
  const error = await cell(CELLS.error);
  const progress: string[] = [];
  const cancel = new AbortController();
  const endless = host.call(CELL, { code: CELLS.endless }, {
    signal: cancel.signal,
    onProgress: ({ message = "" }) => {
      progress.push(message);
      if (message === "begun") cancel.abort(new Error("enough"));
    },
  });
  await assertRejects(() => endless);
  const kept = await cell(CELLS.kept);
  const reset = endOf(await host.call("reset"));
  const gone = await cell(CELLS.gone);
  return { tools, registered, composed, image, error, asked, progress, kept, reset, gone };
}

function endOf({ isError, text, content }: ToolEnd): End {
  const images = content.filter(({ type }) => type === "image");
  return { isError, text, images: images.map(({ mimeType }) => String(mimeType)) };
}
