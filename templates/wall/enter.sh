#!/bin/sh
# Runs a command behind the wall: in the outer sandbox, which decides on files and the network, this
# starts a second one. It has namespaces and a /proc of its own, a system call filter, and no
# capabilities. The files beside this one say how it is made.

wall=${0%/*}

# What runs behind it compares these with its own.
IPYBOX_OUTSIDE=$(readlink /proc/self/ns/ipc /proc/self/ns/uts /proc/self/ns/cgroup) || exit 125
export IPYBOX_OUTSIDE

# When memory runs out, this goes before the user's programs. Inside, /proc can only be read.
{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null

# Of what /proc says of the machine, only this is shown. Root could write much of the rest.
set -- -- "$@"
for entry in /proc/[!0-9]*; do
  case ${entry#/proc/} in
    cgroups | cpuinfo | devices | filesystems | loadavg | meminfo | stat | swaps | uptime | version | \
      vmstat | zoneinfo) continue ;; # nobody may write these
    sys | sysvipc) set -- --ro-bind "$entry" "$entry" "$@" && continue ;;
  esac
  if [ -L "$entry" ]; then
    continue
  elif [ -d "$entry" ]; then
    set -- --ro-bind "$wall/empty" "$entry" "$@"
  else
    set -- --ro-bind /dev/null "$entry" "$@"
  fi
done

# A folder above what is protected cannot be moved away where a mount is on it, even one that another
# one covers: covered, it is in nobody's way. Those of the outer sandbox do not come along. What that
# hides folders by can be written, without a limit.
plain() { # path: what a list of mounts means by this
  path=$1
  case $1 in
    *\\*) path=$(printf '%b/' "$1") && path=${path%/} ;;
  esac
}
newline='
'
writable=
hidden=$newline
pins=
while IFS= read -r line; do writable=$writable$line$newline; done <"$wall/writable"
while IFS= read -r line; do hidden=$hidden$line$newline; done <"$wall/hidden"
IFS=$newline
set -f
while IFS=' ' read -r _ _ _ root point options _; do
  if [ "$root" = / ]; then
    case $options$hidden in
      rw*"$newline$point$newline"*)
        plain "$point"
        if mountpoint -q "$path"; then set -- --remount-ro "$path" "$@"; fi
        ;;
    esac
  else
    pins=$pins$point$newline
  fi
done </proc/self/mountinfo
for folder in $writable; do
  plain "$folder" && set -- --dev-bind "$path" "$path" "$@"
  for point in $pins; do
    case $point in
      "$folder"/*)
        plain "$point"
        [ ! -d "$path" ] || set -- --dev-bind "$path" "$path" "$@"
        ;;
    esac
  done
done

exec bwrap --args 9 --add-seccomp-fd 8 "$@" 9<"$wall/arguments" 8<"$wall/filter"
