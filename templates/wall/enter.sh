#!/bin/sh
# Runs a command in the inner sandbox. This script runs in the outer one, which decides on files and
# the network, and creates the inner one: with separate namespaces and /proc, a system call filter,
# and no capabilities. The files beside this script say how.

wall=${0%/*}

# Compared with the namespaces inside, by the check before the command.
IPYBOX_OUTSIDE=$(readlink /proc/self/ns/ipc /proc/self/ns/uts /proc/self/ns/cgroup) || exit 125
export IPYBOX_OUTSIDE

# When memory runs out, this is killed before the user's programs. Inside, /proc is read-only.
{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null

# Only these parts of /proc about the machine are shown. Root could write much of the rest.
look=$(cat "$wall/look") || exit 125
set -- -- bash -c "$look" bash "$@"
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

# The folders with which the outer sandbox hides others are writable, without a limit. A folder
# above a protected path cannot be moved if something is mounted on it, even if another mount covers
# that one. The outer sandbox's mounts are included only with the whole tree.
newline='
'
writable=
hidden=$newline
pins=
while IFS= read -r line; do writable=$writable$line$newline; done <"$wall/writable"
while IFS= read -r line; do hidden=$hidden$line$newline; done <"$wall/hidden"
whole=
[ ! -e "$wall/whole" ] || whole=yes
IFS=$newline
set -f

plain() { # path: what a list of mounts means by this
  path=$1
  case $1 in
    *\\*) path=$(printf '%b/' "$1") && path=${path%/} ;;
  esac
}

is_hidden() { # folder
  case $hidden in
    *"$newline$1$newline"*) return 0 ;;
  esac
  [ -n "$whole" ] || return 1
  for folder in /dev /proc /sys $writable; do
    case $1/ in
      "$folder"/*) return 1 ;;
    esac
  done
}

while IFS=' ' read -r _ _ _ root point options rest; do
  case "$root $options $rest" in
    "/ rw"*"- tmpfs "*)
      plain "$point"
      if is_hidden "$point" && mountpoint -q "$path"; then
        set -- --remount-ro "$path" "$@"
      fi
      ;;
    *) pins=$pins$point$newline ;;
  esac
done </proc/self/mountinfo
[ -z "$whole" ] || pins=
for folder in ${pins:+$writable}; do
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

read -r bwrap <"$wall/bwrap"

# Descriptors left open by ipybox's parent process or by srt would lead out of the sandbox. Only
# bash, which srt needs as well, can close descriptors above 9.
closing='for fd in /proc/self/fd/*; do
  fd=${fd##*/}
  case $fd in 0 | 1 | 2 | 7 | 8 | 9) ;; *) eval "exec $fd>&-" ;; esac
done
exec "$@"'
exec bash -c "$closing" bash "$bwrap" --args 9 --add-seccomp-fd 8 "$@" \
  9<"$wall/arguments" 8<"$wall/filter" 7<"$wall/seen"
