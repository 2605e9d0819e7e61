// Starts a program in the sandbox runtime, whose proxy starts while the settings are still being
// determined.
//
// Arguments: the runtime's library, the paths of its programs as JSON, the file of the settings, and the
// program's command line.

import { spawn } from "node:child_process";
import { Socket } from "node:net";
import process from "node:process";

// TLS writes in small pieces, and Nagle's algorithm would let each wait for the acknowledgement of the
// last one, which the system delays by 40 ms.
const { pipe } = Socket.prototype;
Socket.prototype.pipe = function (...to) {
  this.setNoDelay();
  return pipe.apply(this, to);
};

let child;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => child === undefined ? process.exit(1) : child.kill(signal));
}

const [library, programs, file, ...command] = Deno.args;
const { SandboxManager, SandboxRuntimeConfigSchema } = await import(library);
const nothing = {
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowRead: [], allowWrite: [], denyWrite: [] },
};
const parsed = (settings) => SandboxRuntimeConfigSchema.parse(settings);
try {
  await SandboxManager.initialize(parsed({ ...nothing, ...JSON.parse(programs) }));
  SandboxManager.updateConfig(parsed(JSON.parse(await Deno.readTextFile(file))));
  const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`);
  const line = await SandboxManager.wrapWithSandbox(quoted.join(" "));
  child = spawn(line, { shell: true, stdio: "inherit" });
  child.on("error", fail);
  child.on("exit", (code) => {
    SandboxManager.cleanupAfterCommand();
    process.exit(code ?? 1);
  });
} catch (error) {
  fail(error);
}

function fail(error) {
  process.stderr.write(`Error: ${error.message}\n`);
  process.exit(1);
}
