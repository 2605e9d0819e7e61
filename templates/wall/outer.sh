#!/bin/sh
# srt runs this as bubblewrap, to make the outer sandbox.
#
# The kernel gives the inner one a /proc of its own only where another one is visible whole, and
# bubblewrap covers parts of the one that it makes for root. So the host's is mounted beside it: what
# runs inside does not see it, as the inner sandbox has another /dev.

wall=${0%/*}
read -r bwrap <"$wall/bwrap"

# What the host has where, with which the inner sandbox compares what it has. Where the path of what is
# shown leads over a link outside of the workspace, the list of mounts has its target.
newline='
'
(
  while IFS=' ' read -r _ _ device root point _; do
    printf 'host %s %s %s\n' "$point" "$device" "$root"
  done </proc/self/mountinfo
  present=
  while IFS=' ' read -r kind path; do
    printf '%s %s\n' "$kind" "$path"
    [ "$kind" = outside ] || continue
    case $path in *\\*) continue ;; esac # ours, and without links
    [ ! -e "$path" ] || present=$present$path$newline
  done <"$wall/places"
  IFS=$newline
  set -f
  # shellcheck disable=SC2086 -- a line is a path
  realpath $present | {
    for path in $present; do
      IFS= read -r real
      [ "$real" = "$path" ] || printf 'link %s %s\n' "$path" "$real"
    done
  }
) >"$wall/seen" || exit 125

fresh=
case " $* " in
  *" --proc /proc "*) fresh=yes ;;
esac
index=0
words=
ended=
for argument; do
  index=$((index + 1))
  case $ended$argument in
    --)
      ended=yes
      [ -z "$fresh" ] || words="$words --bind /proc /dev/proc"
      ;;
    # With the host's /proc, bubblewrap finds itself only by the host's process ids.
    --unshare-pid) [ -n "$fresh" ] || continue ;;
  esac
  words="$words \"\${$index}\""
done
eval "exec \"\$bwrap\" $words"
