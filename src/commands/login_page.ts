import type { LoginOptions } from "../mcp/oauth/login.ts";
import { requireProgram } from "../process/program.ts";
import { startProgram } from "../process/run_program.ts";
import type { CommandIo, OptionSpec, ParsedArgs } from "./command.ts";
import { printable } from "./printable.ts";

/** Options of every command that logs in. */
export const LOGIN_OPTIONS: Readonly<Record<string, OptionSpec>> = {
  open: { help: "At a terminal, also open the page of a login in the browser" },
  "login-timeout": {
    value: "SECONDS",
    help: "How long to wait for a login in the browser (default: 300)",
  },
};

/** Lets the person at the command line log in. */
export function loginAt(io: CommandIo, parsed: ParsedArgs): LoginOptions {
  return {
    timeoutMs: parsed.milliseconds("login-timeout"),
    show: async ({ serverName, url }) => {
      io.err(`To log in to ${serverName}, open this page of ${url.host} in a browser here:`);
      io.err(`\n  ${printable(url.href)}\n`);
      if (parsed.has("open") && io.interactive) await openInBrowser(url, io);
      io.err("Waiting for the browser to come back. Ctrl-C gives up.");
    },
  };
}

/** Without a shell: the address is the server's. */
async function openInBrowser(url: URL, io: CommandIo): Promise<void> {
  const program = Deno.build.os === "darwin" ? "open" : "xdg-open";
  try {
    await startProgram(await requireProgram(program), [url.href]); // some browsers stay
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    io.err(`${reason}: open the page yourself.`);
  }
}
