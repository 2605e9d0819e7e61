#!/usr/bin/env node
// Runs ipybox, which is JavaScript for Deno, on the Deno that npm installed beside it.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

// The JavaScript engine reserves addresses, which take no memory, and crashes if it gets too few.
const NEEDED_GIB = 40;
const gib = addressSpace() / 2 ** 30;
if (gib < NEEDED_GIB) {
  process.stderr.write(
    `ipybox: the limit on virtual memory here is ${
      gib.toFixed(1)
    } GiB (ulimit -v), and Deno reserves ` +
      `${NEEDED_GIB} GiB of addresses. Set a higher limit, such as: ulimit -v unlimited\n`,
  );
  process.exit(3);
}

// Its own `deno` command would wait without passing signals on.
const deno = createRequire(import.meta.url)("deno/install_api.cjs").runInstall();
const cli = fileURLToPath(new URL("lib/cli.js", import.meta.url));
const flags = ["-A", "--no-config", "--no-lock", "--unstable-no-legacy-abort"];
// Deno also trusts this machine's certificates, such as a company's.
const env = { DENO_TLS_CA_STORE: "system,mozilla", ...process.env };
const args = ["run", ...flags, cli, ...process.argv.slice(2)];

// From Node.js 22.15 on, Deno takes its place, which saves 40 MiB for as long as ipybox runs.
if (process.platform !== "win32") process.execve?.(deno, [deno, ...args], env);

const child = spawn(deno, args, { stdio: "inherit", env });

// A terminal sends Ctrl-C to Deno, too, and a second one would end ipybox without its clean-up. A
// terminal that closes may notify only this process.
const atTerminal = [process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY);
const bothGet = atTerminal ? ["SIGINT"] : [];
for (const signal of SIGNALS) {
  process.on(signal, () => bothGet.includes(signal) || child.kill(signal));
}
child.on("error", (error) => {
  process.stderr.write(`ipybox: cannot start Deno: ${error.message}\n`);
  process.exitCode = 3;
});
child.on("exit", (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal];
});

/** The limit on virtual memory in bytes, on Linux. */
function addressSpace() {
  if (process.platform !== "linux") return Infinity;
  const [, limit] = /^Max address space +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ??
    [];
  return Number(limit ?? Infinity);
}
