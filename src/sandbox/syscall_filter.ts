/**
 * The system call filter of all sandboxes: a program for the kernel's BPF machine, which `bwrap`
 * installs before it starts the contents of the sandbox.
 *
 * It denies calls that bypass namespaces (keys, other socket families), calls that lead to large
 * and rarely used parts of the kernel, and calls that Docker's default profile denies and Python
 * does not need. `ptrace` and `process_vm_*` are allowed: debuggers need them, and the separation
 * between kernels also protects ipybox's own processes inside, the launcher and the gateway.
 *
 * Since these run as the same user, nothing else would keep code from changing their limits: with a
 * lower limit on open files, the gateway could not end a kernel's leftovers. So code can change
 * only its own limits. Priorities only slow its own session down, because no other process is in
 * its namespace.
 *
 * It denies leases and delegations, with which code could block programs outside that open a file, even
 * one that code may only read.
 *
 * It denies creating setuid and setgid files: files in the workspace belong to the user outside,
 * too, and others could run them with that user's rights.
 *
 * @module
 */

/** System calls that a filter may allow although they are usually denied. */
interface SyscallFilterOptions {
  /** Namespaces and mounts, which depend on each other. */
  readonly namespaces: boolean;
  /** Unix sockets. A program that sees the host's could connect to these. */
  readonly unixSockets: boolean;
}

/** System calls and their numbers: the same on all architectures, or one for each. */
type Numbers = Readonly<Record<string, number | readonly [x86_64: number, aarch64: number | null]>>;

const REFUSED: Numbers = {
  // Kernel keys have no namespace, and requesting one starts a host program.
  add_key: [248, 217],
  request_key: [249, 218],
  keyctl: [250, 219],
  // Large, and a frequent way to attack the kernel.
  bpf: [321, 280],
  fanotify_init: [300, 262],
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  // Calls that inspect other processes or advise on their memory.
  kcmp: [312, 272],
  pidfd_getfd: 438,
  process_madvise: 440,
  process_mrelease: 448,
  // Its contexts are counted for the whole machine, and one process may use all of them.
  io_setup: [206, 0],
  // Opens files by handle, regardless of mounts.
  open_by_handle_at: [304, 265],
  // The machine: modules, clock, name, swap, log and power.
  acct: [163, 89],
  adjtimex: [159, 171],
  clock_adjtime: [305, 266],
  clock_settime: [227, 112],
  create_module: [174, null],
  delete_module: [176, 106],
  finit_module: [313, 273],
  get_kernel_syms: [177, null],
  init_module: [175, 105],
  ioperm: [173, null],
  iopl: [172, null],
  kexec_file_load: [320, 294],
  kexec_load: [246, 104],
  lookup_dcookie: [212, 18],
  nfsservctl: [180, 42],
  query_module: [178, null],
  quotactl: [179, 60],
  quotactl_fd: 443,
  reboot: [169, 142],
  setdomainname: [171, 162],
  sethostname: [170, 161],
  settimeofday: [164, 170],
  swapoff: [168, 225],
  swapon: [167, 224],
  sysctl: [156, null],
  sysfs: [139, null],
  syslog: [103, 116],
  uselib: [134, null],
  ustat: [136, null],
  vhangup: [153, 58],
};

/** In a new user namespace, code could undo mounts that hide files from it. */
const NAMESPACES: Numbers = {
  fsconfig: 431,
  fsmount: 432,
  fsopen: 430,
  fspick: 433,
  mount: [165, 40],
  mount_setattr: 442,
  move_mount: 429,
  open_tree: 428,
  open_tree_attr: 467,
  pivot_root: [155, 41],
  setns: [308, 268],
  umount2: [166, 39],
  unshare: [272, 97],
};

/** Calls that are decided by an argument. */
const CLONE: Numbers = { clone: [56, 220] };
const CLONE3: Numbers = { clone3: 435 };
const PERSONALITY: Numbers = { personality: [135, 92] };
const SOCKET: Numbers = { socket: [41, 198] };
const SOCKETPAIR: Numbers = { socketpair: [53, 199] };
/** Its argument is in memory, where a filter cannot see it. All callers can do without it. */
const OPENAT2: Numbers = { openat2: 437 };

/**
 * Calls that set a file mode, and the index of that argument. The system drops these bits for new
 * folders.
 */
const MODES: readonly (readonly [calls: Numbers, mode: number])[] = [
  [{ creat: [85, null], mknod: [133, null], chmod: [90, null], fchmod: [91, 52] }, 1],
  [{ mknodat: [259, 33], fchmodat: [268, 53], fchmodat2: 452 }, 2],
];
/** Calls that set a file mode if their flags create a file. The mode follows the flags. */
const OPENS: readonly (readonly [calls: Numbers, flags: number])[] = [
  [{ open: [2, null] }, 1],
  [{ openat: [257, 56] }, 2],
];

/** The limits of any process can be read: the argument with new ones is then a null pointer. */
const LIMITS: Numbers = { prlimit64: [302, 261] };

/** `F_SETLEASE`, and `F_SETDELEG`, which Linux has since 6.19. */
const FILE_CONTROL: Numbers = { fcntl: [72, 25] };
const LEASES = [1024, 1040];

/** `CLONE_NEWNS`, `…CGROUP`, `…UTS`, `…IPC`, `…USER`, `…PID` and `…NET`. */
const NEW_NAMESPACES = 0x7e020000;
/** The personalities that Docker's profile allows, and those with a fixed memory layout, for debuggers. */
const PERSONALITIES = [0, 0x8, 0x20000, 0x20008, 0xffffffff, 0x40000, 0x40008];
const AF = { unix: 1, inet: 2, inet6: 10, netlink: 16 } as const;
/** `SOCK_STREAM` and `SOCK_SEQPACKET`. */
const PAIRED = [1, 5];
/** The part of a socket's type that is not a flag. */
const SOCKET_TYPE = 0xf;
/** `S_ISUID` and `S_ISGID`. */
const RUNS_AS_OWNER = 0o6000;
/** `O_CREAT`, and the bits of `O_TMPFILE` besides `O_DIRECTORY`. */
const MAKES_FILES = 0o20000100;

const ARCHITECTURES = {
  x86_64: { index: 0, audit: 0xc000003e },
  aarch64: { index: 1, audit: 0xc00000b7 },
} as const;
/** From this number on, x86-64 calls are those of x32, which duplicate the others. */
const X32 = 0x40000000;

/** Classic BPF, see `linux/bpf_common.h`: loading a word, masking, jumping and returning. */
const LOAD = 0x20;
const AND = 0x54;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_AT_LEAST = 0x35;
const JUMP_IF_ANY_BIT = 0x45;
const RETURN = 0x06;

/** Offsets in `struct seccomp_data`; for arguments, of the lower half. */
const NUMBER = 0;
const ARCHITECTURE = 4;
const FIRST_ARGUMENT = 16;

const ALLOW = 0x7fff0000;
const EPERM = 0x00050001;
/** Callers then fall back to the older call, whose flags a filter can see. */
const ENOSYS = 0x00050026;

type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

/**
 * Builds the filter for this machine's architecture. Calls of other architectures, such as those of
 * 32-bit programs, are all denied, because their numbers differ.
 */
export function syscallFilter(
  options: SyscallFilterOptions,
  architecture: string = Deno.build.arch,
): Uint8Array<ArrayBuffer> | undefined {
  if (architecture !== "x86_64" && architecture !== "aarch64") return undefined;
  const { index, audit } = ARCHITECTURES[architecture];
  const numbers = (calls: Numbers) =>
    Object.values(calls).flatMap((number) =>
      typeof number === "number" ? number : number[index] ?? []
    );
  const families = Object.values(AF).filter((family) => family !== AF.unix || options.unixSockets);
  return encode([
    [LOAD, 0, 0, ARCHITECTURE],
    [JUMP_IF_EQUAL, 1, 0, audit],
    [RETURN, 0, 0, EPERM],
    [LOAD, 0, 0, NUMBER],
    ...(architecture === "x86_64" ? answerIf(JUMP_IF_AT_LEAST, X32, EPERM) : []),
    ...numbers(REFUSED).flatMap((number) => answerIf(JUMP_IF_EQUAL, number, EPERM)),
    ...numbers(OPENAT2).flatMap((number) => answerIf(JUMP_IF_EQUAL, number, ENOSYS)),
    ...MODES.flatMap(([calls, mode]) => about(numbers(calls), refuseBits(mode, RUNS_AS_OWNER))),
    ...OPENS.flatMap(([calls, flags]) => about(numbers(calls), refuseNewOwners(flags))),
    ...about(numbers(LIMITS), [
      ...[load(0), ...answerIf(JUMP_IF_EQUAL, 0, ALLOW)],
      ...[load(2), ...answerUnless(0, EPERM)],
      ...[upperHalf(2), ...answerUnless(0, EPERM)],
    ]),
    ...about(numbers(FILE_CONTROL), [
      load(1),
      ...LEASES.flatMap((command) => answerIf(JUMP_IF_EQUAL, command, EPERM)),
    ]),
    ...about(numbers(SOCKET), [load(0), ...allowOnly(families)]),
    ...about(numbers(SOCKETPAIR), [
      ...[load(0), ...answerUnless(AF.unix, EPERM)],
      // A pair of these sends to nobody else.
      ...(options.unixSockets
        ? []
        : [load(1), [AND, 0, 0, SOCKET_TYPE] as const, ...allowOnly(PAIRED)]),
    ]),
    ...about(numbers(PERSONALITY), [load(0), ...allowOnly(PERSONALITIES)]),
    ...(options.namespaces ? [] : [
      ...numbers(NAMESPACES).flatMap((number) => answerIf(JUMP_IF_EQUAL, number, EPERM)),
      ...numbers(CLONE3).flatMap((number) => answerIf(JUMP_IF_EQUAL, number, ENOSYS)),
      ...about(numbers(CLONE), [load(0), ...answerIf(JUMP_IF_ANY_BIT, NEW_NAMESPACES, EPERM)]),
    ]),
    [RETURN, 0, 0, ALLOW],
  ]);
}

/** Returns an answer if a comparison with the loaded value holds; continues otherwise. */
function answerIf(comparison: number, value: number, answer: number): Instruction[] {
  return [[comparison, 0, 1, value], [RETURN, 0, 0, answer]];
}

/** Returns an answer unless the loaded value is equal; continues otherwise. */
function answerUnless(value: number, answer: number): Instruction[] {
  return [[JUMP_IF_EQUAL, 1, 0, value], [RETURN, 0, 0, answer]];
}

/** Denies the call unless the loaded value is one of these. */
function allowOnly(values: readonly number[]): Instruction[] {
  const allowed = values.flatMap((value) => answerIf(JUMP_IF_EQUAL, value, ALLOW));
  return [...allowed, [RETURN, 0, 0, EPERM]];
}

/** Denies a mode with any of these bits. */
function refuseBits(mode: number, bits: number): Instruction[] {
  return [load(mode), ...answerIf(JUMP_IF_ANY_BIT, bits, EPERM)];
}

/** Denies a mode with the setuid or setgid bit, if the flags say that there is a mode; otherwise that argument is undefined. */
function refuseNewOwners(flags: number): Instruction[] {
  const refusal = refuseBits(flags + 1, RUNS_AS_OWNER);
  return [load(flags), [JUMP_IF_ANY_BIT, 0, refusal.length, MAKES_FILES], ...refusal];
}

/** Loads the lower half of an argument of the call. */
function load(argument: number): Instruction {
  return [LOAD, 0, 0, FIRST_ARGUMENT + argument * 8];
}

/** Loads the upper half of an argument of the call. */
function upperHalf(argument: number): Instruction {
  return [LOAD, 0, 0, FIRST_ARGUMENT + argument * 8 + 4];
}

/** Applies rules to some calls. If no rule decides, the call is allowed. */
function about(numbers: readonly number[], rules: readonly Instruction[]): Instruction[] {
  return numbers.flatMap((number): Instruction[] => [
    [JUMP_IF_EQUAL, 0, rules.length + 1, number],
    ...rules,
    [RETURN, 0, 0, ALLOW],
  ]);
}

function encode(program: readonly Instruction[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(program.length * 8);
  const view = new DataView(bytes.buffer);
  for (const [i, [code, ifTrue, ifFalse, value]] of program.entries()) {
    view.setUint16(i * 8, code, true);
    view.setUint8(i * 8 + 2, ifTrue);
    view.setUint8(i * 8 + 3, ifFalse);
    view.setUint32(i * 8 + 4, value, true);
  }
  return bytes;
}
