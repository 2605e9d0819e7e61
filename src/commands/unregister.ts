import { removePackage } from "../apigen/package.ts";
import { ServerRegistry } from "../servers/registry.ts";
import { type Command, type CommandIo, EXIT, type ParsedArgs } from "./command.ts";
import { endLogin } from "./logout.ts";
import { mcptoolsOf, requireServerName, unknownServer, WORKSPACE, workspaceOf } from "./shared.ts";

export const command: Command = {
  usage: "NAME [OPTIONS]",
  positional: { min: 1, max: 1 },
  options: { workspace: WORKSPACE },
  notes: [
    "Also logs out of the server, as `ipybox logout` does, in all workspaces.",
    "",
    "Example:",
    "",
    "  ipybox unregister github",
  ].join("\n"),
  run,
};

async function run(parsed: ParsedArgs, io: CommandIo): Promise<number> {
  const [name = ""] = parsed.positional;
  requireServerName(name); // it is about to become a path
  const workspace = await workspaceOf(parsed);
  const registry = await ServerRegistry.open({ workspace });
  const params = registry.get(name);
  const registered = await registry.unregister(name);
  const removed = await removePackage(mcptoolsOf(workspace), name);
  if (!registered && !removed) throw unknownServer(name, registry.names);
  io.out(`${name}: removed\n`);
  if (params !== undefined && "url" in params) await endLogin(name, params, { workspace, io });
  return EXIT.ok;
}
