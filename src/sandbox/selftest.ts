import { z } from "zod";

/** What is said of it to people: one line. */
const word = z.string().max(4096).regex(/^\P{Cc}*$/u);

/**
 * The launcher's attempts at what the sandbox must deny, with the property names of the link
 * protocol.
 */
export const selfTestSchema = z.object({
  /** The launcher's process id inside the sandbox. */
  pid: z.number(),
  /** Its user id inside the sandbox. */
  uid: z.number(),
  /** The system's name in Python. */
  platform: word,
  /** `"allowed"`, or the name of the error. */
  unix_socket: word,
  /** `"2"` if a system call filter is active; Linux only. */
  seccomp: word.optional(),
  /** `"1"` if privileges cannot be gained; Linux only. */
  no_new_privs: word.optional(),
  /** The names of its nonempty capability sets; Linux only. */
  capabilities: z.array(word).max(1000).optional(),
  /** The namespaces that it shares with the outside of the sandbox; Linux only. */
  shared_namespaces: z.array(word).max(1000).optional(),
  /** `"allowed"`, or the name of the error of requesting a kernel key; Linux only. */
  keyring: word.optional(),
  /** `"allowed"`, or the name of the error of creating a datagram socket pair; Linux only. */
  datagrams: word.optional(),
  /** The name of the error of creating a setuid file; Linux only. */
  setuid: word.optional(),
  /** Files of the machine that can be opened for writing; Linux only. */
  writable: z.array(word).max(1000).optional(),
  /** Files with kernel memory that can be read; Linux only. */
  readable: z.array(word).max(1000).optional(),
  /** The network interfaces besides loopback; Linux only. */
  networks: z.array(word).max(1000).optional(),
  /** Whether the workspace is another folder than the one that was to be mounted. */
  replaced: z.boolean().optional(),
  /** The addresses that answered; absent if none was tried. */
  reached: z.array(word).max(1000).optional(),
  /** The version of Landlock; below 1 if there is none; Linux only. */
  landlock: z.number().optional(),
  /** `"open"`, or the name of the error. */
  canary_file: word,
  /** `"open"`, or the name of the error. */
  canary_port: word,
  /** `"visible"`, or the name of the error. */
  canary_process: word,
});

/** The launcher's report. */
export type SelfTestReport = z.infer<typeof selfTestSchema>;

/** What a report may leave open. */
interface SelfTestOptions {
  /**
   * Whether the report is about another machine or a container. Namespaces may be shared there, but
   * there must be no network.
   */
  elsewhere?: boolean;
  /** Whether it can have network interfaces there, as long as nobody answers. */
  mayHaveInterfaces?: boolean;
  /** The user allows Unix sockets and accepts the risk. */
  allowUnixSockets?: boolean;
  /** A process id inside may equal one outside by chance. */
  ambiguousProcess?: boolean;
}

/** The failure of a network that others had to close. */
export const UNWALLED = "the network is open";

/** Lists the requirements that a report does not meet. */
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
  check(report.replaced !== true, "the workspace was replaced while it was mounted: try again");
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
    // Elsewhere, this file shows symbols without their addresses.
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

/** Whether Linux can keep processes of one user apart; the first version of Landlock cannot be used. */
export function hasLandlock({ landlock = 0 }: Pick<SelfTestReport, "landlock">): boolean {
  return landlock >= 2;
}
