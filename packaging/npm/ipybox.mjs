#!/usr/bin/env node
// Runs ipybox, which is JavaScript for Deno, on the Deno that npm installed beside it.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";
import { fileURLToPath } from "node:url";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

// Its own `deno` command would wait without passing signals on.
const deno = createRequire(import.meta.url)("deno/install_api.cjs").runInstall();
const cli = fileURLToPath(new URL("lib/cli.js", import.meta.url));
const flags = ["-A", "--no-config", "--no-lock", "--unstable-no-legacy-abort"];
const args = ["run", ...flags, cli, ...process.argv.slice(2)];

// From Node.js 22.15 on, Deno takes its place, which saves 40 MiB for as long as ipybox runs.
if (process.platform !== "win32") process.execve?.(deno, [deno, ...args], process.env);

const child = spawn(deno, args, { stdio: "inherit" });

// A terminal sends these to Deno, too. A second one would end ipybox without its clean-up.
const atTerminal = [process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY);
const bothGet = atTerminal ? ["SIGINT", "SIGHUP"] : [];
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
