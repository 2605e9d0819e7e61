import { McpConnectionError } from "../base/errors.ts";
import { forgetLogin } from "../mcp/oauth/logout.ts";
import type { HttpServerParams } from "../mcp/params.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs } from "./command.ts";
import { requireRemote } from "./login.ts";
import { requireServerName, WORKSPACE, workspaceOf } from "./shared.ts";

export const command: Command = {
  usage: "NAME [OPTIONS]",
  positional: { min: 1, max: 1 },
  options: { workspace: WORKSPACE },
  notes: [
    "Revokes the tokens if the authorization server supports revocation, and deletes",
    "them in any case. This also logs out other workspaces that use the server.",
    "",
    "Example:",
    "",
    "  ipybox logout github",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [name = ""] = parsed.positional;
  requireServerName(name);
  const workspace = await workspaceOf(parsed);
  const registry = await ServerRegistry.open({ workspace });
  const params = requireRemote(name, registry);
  if (!await endLogin(name, params, { workspace, io })) io.err(`${name}: not logged in`);
  return EXIT.ok;
}

/** Ends the login to a server, if any. */
export async function endLogin(
  name: string,
  params: HttpServerParams,
  { workspace, io }: { readonly workspace: string; readonly io: CommandIo },
): Promise<boolean> {
  const end = await forgetLogin(name, params, { workspace, signal: io.signal });
  switch (end) {
    case "none":
      return false;
    case "revoked":
    case "deleted":
      io.out(`${name}: logged out\n`);
      if (end === "deleted") {
        io.err(
          "Deleted the tokens on this machine. The server does not support revocation; the tokens will expire on their own.",
        );
      }
      return true;
    case "refused":
      throw new McpConnectionError(
        name,
        `${name}: logged out on this machine, but the tokens could not be revoked at the authorization server`,
      );
  }
}
