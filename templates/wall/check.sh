# Checks that the sandbox holds, enters the folder, and starts the program.
# Arguments: the system, a file that must not be visible, the folder, limits (KiB of memory,
# processes, blocks of one file), the program and its arguments.
fail() {
  echo "The sandbox does not hold, nothing was started: $1" >&2
  exit 125
}

check_linux() {
  [ -n "$IPYBOX_OUTSIDE" ] || fail "it was not entered"
  for own in $(readlink /proc/self/ns/ipc /proc/self/ns/uts /proc/self/ns/cgroup); do
    for outer in $IPYBOX_OUTSIDE; do
      [ "$own" != "$outer" ] || fail "it has the namespace $own of the host"
    done
  done
  while read -r name value; do
    case $name in
      Cap*) [ -z "${value##*[!0]*}" ] && fail "it has capabilities" ;;
      Seccomp:) [ "$value" = 2 ] || fail "no system call filter is active" ;;
      NoNewPrivs:) [ "$value" = 1 ] || fail "privileges can be gained" ;;
    esac
  done </proc/self/status
  for fd in /proc/self/fd/*; do
    case ${fd##*/} in
      0 | 1 | 2) ;;
      *) [ ! -e "$fd" ] || fail "descriptor ${fd##*/} of the host is open" ;;
    esac
  done
  for file in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/irq/default_smp_affinity; do
    # Opening it writes nothing.
    if { true >>"$file"; } 2>/dev/null; then fail "$file can be written"; fi
  done
  unset IPYBOX_OUTSIDE
}

[ ! -e "$2" ] || fail "a file of the host's is visible"
[ "$1" != linux ] || check_linux
cd -- "$3" || exit 126
# Code may have replaced the folder by a link; the kernel reports where it led.
[ "$1" != linux ] || [ "$(readlink /proc/self/cwd)" = "$3" ] || fail "$3 leads elsewhere"
# Lower limits that are already in force stay.
{
  ulimit -c 0
  ulimit -v "$4"
  ulimit -u "$5" || ulimit -p "$5" # the names in different shells
  ulimit -f "$6"
} 2>/dev/null
shift 6
exec "$@"
