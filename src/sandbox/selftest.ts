import { z } from "zod";

/** What the launcher saw when it tried what the sandbox must refuse, by the names on the link. */
export const selfTestSchema = z.object({
  /** The launcher's process id, as it is inside. */
  pid: z.number(),
  /** Its user, as it is inside. */
  uid: z.number(),
  /** Python's name of the system. */
  platform: z.string(),
  /** `"allowed"`, or the name of the error. */
  unix_socket: z.string(),
  /** `"2"` where a system call filter is active; Linux only. */
  seccomp: z.string().optional(),
  /** `"1"` where privileges cannot be gained; Linux only. */
  no_new_privs: z.string().optional(),
  /** The names of its sets of capabilities that are not empty; Linux only. */
  capabilities: z.array(z.string()).optional(),
  /** The namespaces that it shares with what is around the sandbox; Linux only. */
  shared_namespaces: z.array(z.string()).optional(),
  /** `"allowed"`, or the name of the error of asking for the kernel's keys; Linux only. */
  keyring: z.string().optional(),
  /** `"allowed"`, or the name of the error of making a pair of datagram sockets; Linux only. */
  datagrams: z.string().optional(),
  /** The name of the error of asking for a file that runs as its owner; Linux only. */
  setuid: z.string().optional(),
  /** Files of the machine that can be opened for writing; Linux only. */
  writable: z.array(z.string()).optional(),
  /** Files with the kernel's own memory that can be read; Linux only. */
  readable: z.array(z.string()).optional(),
  /** The network interfaces beside the loopback; Linux only. */
  networks: z.array(z.string()).optional(),
  /** The addresses of the network that answered, where that was tried. */
  reached: z.array(z.string()).optional(),
  /** Which Landlock there is, below 1 for none; Linux only. */
  landlock: z.number().optional(),
  /** `"open"`, or the name of the error. */
  canary_file: z.string(),
  /** `"open"`, or the name of the error. */
  canary_port: z.string(),
  /** `"visible"`, or the name of the error. */
  canary_process: z.string(),
});

/** The launcher's report. */
export type SelfTestReport = z.infer<typeof selfTestSchema>;

/** What a report may leave open. */
export interface SelfTestOptions {
  /**
   * Whether it is about another machine, or a container, which shares the namespaces of its own machine
   * as it likes, and has no network at all.
   */
  elsewhere?: boolean;
  /** Whether it can have network interfaces there, as long as nobody answers. */
  mayHaveInterfaces?: boolean;
  /** The user wants Unix sockets, knowing what that means. */
  allowUnixSockets?: boolean;
  /** The process ids inside and outside may be the same by chance. */
  ambiguousProcess?: boolean;
}

/** What is said where a network was to be closed by others. */
export const UNWALLED = "the network is open";

/** Judges a report. */
export function selfTestFailures(
  report: SelfTestReport,
  options: SelfTestOptions = {},
): string[] {
  const failures: string[] = [];
  const check = (holds: boolean, failure: string) => {
    if (!holds) failures.push(failure);
  };
  if (options.elsewhere === true) {
    check(report.platform === "linux", `it is ${report.platform}, not Linux`);
  }
  check(report.canary_file !== "open", "a file outside the workspace can be opened");
  if (report.platform === "linux") {
    const { allowUnixSockets = false, ambiguousProcess = false } = options;
    const { elsewhere = false, mayHaveInterfaces = false } = options;
    const socket = report.unix_socket === "EPERM" || report.unix_socket === "EACCES";
    check(socket || allowUnixSockets, "Unix sockets can be created");
    check(report.seccomp === "2", "no seccomp filter is active");
    check(report.no_new_privs === "1", "privileges can be gained (no_new_privs is off)");
    const none = (found: readonly string[] | undefined, failure: string) =>
      check(found?.length === 0, `${failure}: ${found?.join(", ") ?? "not looked at"}`);
    none(report.capabilities, "it has capabilities");
    if (mayHaveInterfaces) none(report.reached, UNWALLED);
    else if (elsewhere) none(report.networks, "there is a network");
    else none(report.shared_namespaces, "it shares namespaces with the host");
    check(report.keyring === "EPERM", "the kernel's keys can be requested");
    const keepsToItself = report.datagrams === "EPERM" || allowUnixSockets;
    check(keepsToItself, "Unix sockets can be reached through a socket pair");
    check(report.setuid === "EPERM", "setuid files can be created");
    none(report.writable, "the machine's files can be written");
    // Elsewhere, what is seen there are symbols without their addresses.
    const readable = report.readable?.filter((path) => !elsewhere || path !== "/proc/kallsyms");
    none(readable, "the kernel's own files can be read");
    check(report.canary_port !== "open", "a port of the host can be reached");
    check(
      report.canary_process !== "visible" || ambiguousProcess,
      "processes of the host are visible",
    );
  }
  return failures;
}
