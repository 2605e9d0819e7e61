// Says how the sandbox runtime starts a command that reaches no host. It has no proxy then, so nothing
// of it has to live as long as the command.
//
// Argument: the runtime's library. On stdin comes `{settings, command}`, on stdout goes the line for a
// shell, as JSON; `null` if the line leads to a file that only this process keeps.

const { SandboxManager, SandboxRuntimeConfigSchema } = await import(Deno.args[0]);
const { settings, command } = await new Response(Deno.stdin.readable).json();
SandboxManager.updateConfig(SandboxRuntimeConfigSchema.parse(settings));
const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`);
const line = await SandboxManager.wrapWithSandbox(quoted.join(" "));
const isKept = line.includes(`/proc/${Deno.pid}/fd/`);
await new Blob([JSON.stringify(isKept ? null : line)]).stream().pipeTo(Deno.stdout.writable);
// An orderly end would remove the folder that the line mounts in the place of others.
Deno.kill(Deno.pid, "SIGKILL");
