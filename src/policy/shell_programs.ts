/**
 * Names that rules for simple commands have to know, as the words behind them are more than arguments.
 *
 * @module
 */

/** Words of the grammar of sh, bash and zsh, which cannot be the name of a command. */
export const SHELL_KEYWORDS: ReadonlySet<string> = new Set(
  ("- ! [[ ]] { } always case coproc do done elif else end esac fi for foreach function if in " +
    "nocorrect noglob repeat select then until while").split(" "),
);

/** Builtins of shells that work out their arguments, or change what later commands mean. */
const EVALUATING: ReadonlySet<string> = new Set(
  ("[ alias autoload bind bindkey break bye compgen complete continue declare echotc emulate enable " +
    "eval exit export fc float functions getopts hash history integer jobs let local logout mapfile " +
    "print printf private read readarray readonly return sched set shift test trap typeset unset " +
    "vared wait zcompile zle zmodload zparseopts zstyle").split(" "),
);

/** Programs that run others, or code in their arguments. */
const STARTING: ReadonlySet<string> = new Set(
  (
    // shells
    "ash bash busybox csh dash elvish fish ksh mksh nu pwsh rbash sh tcsh toybox yash zsh " +
    // programs that start what stands behind their options
    ". builtin bwrap catchsegv chroot chrt command dbus-run-session doas entr env exec expect fakeroot " +
    "find firejail flock gdb ionice ltrace nice nohup nsenter numactl parallel prlimit proot rlwrap " +
    "runcon runuser script setarch setpriv setsid source ssh start-stop-daemon stdbuf strace su sudo " +
    "systemd-run taskset time timeout torsocks unbuffer unshare valgrind watch xargs xvfb-run " +
    // interpreters, and what runs packages
    "awk bun bunx bundle conda deno gawk julia lua make mawk nawk node npm npx osascript perl php " +
    "pipx pnpm poetry pypy python R Rscript ruby tclsh uv uvx yarn"
  ).split(" "),
);

/** Whether a program runs what its arguments say, so that only a rule that names it may allow it. */
export function startsPrograms(name: string): boolean {
  const file = name.split("/").at(-1) ?? name;
  return STARTING.has(file) || STARTING.has(file.replace(/[\d.-]+$/, ""));
}

/** Whether a shell may run what is in a command's arguments. */
export function evaluates(name: string, args: readonly string[]): boolean {
  // What is behind -exec is a command with a rule of its own, so that a rule for find is not enough.
  if (name.split("/").at(-1) === "find") return args.some((word) => /^-(exec|ok)/.test(word));
  return EVALUATING.has(name);
}
