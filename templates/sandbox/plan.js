// Prints how the sandbox runtime starts a command that may reach no hosts. Without hosts there is
// no proxy, so nothing of the runtime has to live as long as the command.
//
// Argument: the runtime's library. Reads `{settings, command}` from stdin, and writes a shell
// command to stdout as JSON; `null` if the command depends on a file that only this process keeps
// open.

const { SandboxManager, SandboxRuntimeConfigSchema } = await import(Deno.args[0]);
const { settings, command } = await new Response(Deno.stdin.readable).json();
SandboxManager.updateConfig(SandboxRuntimeConfigSchema.parse(settings));
const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`);
const line = await SandboxManager.wrapWithSandbox(quoted.join(" "));
const isKept = line.includes(`/proc/${Deno.pid}/fd/`);
await new Blob([JSON.stringify(isKept ? null : line)]).stream().pipeTo(Deno.stdout.writable);
// A regular exit would remove the folder that the command mounts over others.
Deno.kill(Deno.pid, "SIGKILL");
