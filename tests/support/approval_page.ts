/**
 * What tests of the approval page share: a tool server, and what a person sees and does.
 *
 * @module
 */
import type { ApprovalCall, ApprovalResponse, RememberScope } from "../../src/approval/request.ts";
import { settledWithin } from "../../src/base/signals.ts";
import { type ExactObject, parseExact, sealObject, stringifyExact } from "../../src/json/exact.ts";
import { silentLogger } from "../../src/base/log.ts";
import { type OwnServerOptions, ToolServer } from "../../src/calls/tool_server.ts";
import { rawServer } from "./mcp.ts";
import type { BrowserContextOptions, Page, TestBrowser } from "./browser.ts";

/** Starts a tool server that asks about everything, with the server `raw`. */
export async function askingServer(
  options: {
    linkMs?: number;
    graceMs?: number;
    approvalTimeoutMs?: number;
    journal?: string;
    workspace?: string;
  } = {},
): Promise<ToolServer> {
  const own: OwnServerOptions = {
    workspace: options.workspace,
    servers: { raw: rawServer("normal", options.journal) },
    approvalTimeoutMs: options.approvalTimeoutMs,
    // Machines under load take long to load a page again.
    graceMs: options.graceMs ?? 60_000,
    linkMs: options.linkMs,
    log: silentLogger,
  };
  return await ToolServer.start(own);
}

/** Opens the approval page of a tool server by a link, and waits until it is connected. */
export async function openPage(
  browser: TestBrowser,
  server: ToolServer,
  options: BrowserContextOptions = {},
): Promise<Page> {
  const page = await browser.open(server.approvalPage(), options);
  await page.locator('#status[data-state="open"]').waitFor();
  return page;
}

/** Waits for the link of `ipybox run --page` in its stderr, and leaves the rest of the stream alone. */
export async function pageLinkIn(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const link = /^Approvals: (http:\S+)\n/m.exec(text)?.[1];
    if (link !== undefined) return link;
  }
  throw new Error(`There is no link: ${text}`);
}

/** What is asked about; the rest is that of a usual tool call. */
export interface Asked extends Partial<Omit<ApprovalCall, "arguments">> {
  /** The arguments, or their JSON text. */
  readonly arguments?: Readonly<Record<string, unknown>> | string;
  readonly scopes?: readonly RememberScope[];
  readonly pattern?: string;
}

/** Asks for a decision on a call of `files.write_file`. */
export function ask(server: ToolServer, asked: Asked = {}): Promise<ApprovalResponse> {
  const { arguments: args = {}, scopes, pattern, ...others } = asked;
  const text = typeof args === "string" ? args : stringifyExact(args);
  return server.runner.channel.request({
    kind: "tool",
    serverName: "files",
    toolName: "write_file",
    ...others,
    arguments: sealed(text),
  }, { ...(scopes === undefined ? {} : { scopes }), pattern });
}

function sealed(text: string): ExactObject {
  return sealObject(parseExact(text));
}

/** A test that waits longer has failed. */
const PATIENCE_MS = 30_000;

/** An answer in one line: `allowed {"a":1}` or `approval_rejected: no`. */
export async function answerOf(asked: Promise<ApprovalResponse>): Promise<string> {
  if (!await settledWithin(asked, PATIENCE_MS)) throw new Error("The request was not decided");
  const response = await asked;
  if (!response.accepted) return `${response.type}: ${response.reason}`;
  const remembered = response.remember === undefined
    ? ""
    : ` ${response.remember.scope} ${response.remember.match}`;
  return `allowed ${stringifyExact(response.arguments)}${remembered}`;
}

/** Waits until the request in view can be decided. */
export async function untilReady(page: Page): Promise<void> {
  await page.locator("#allow:enabled").waitFor();
}

/** Waits until so many requests wait for a decision. */
export async function untilWaiting(page: Page, count: number): Promise<void> {
  await page.locator(`#pending-count:text-is("${count}")`).waitFor();
}
