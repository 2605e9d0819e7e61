#!/bin/sh
# srt runs this as bubblewrap, to make the outer sandbox.
#
# The kernel gives the inner one a /proc of its own only where another one is visible whole, and
# bubblewrap covers parts of the one that it makes for root. So the host's is mounted beside it: what
# runs inside does not see it, as the inner sandbox has another /dev.

wall=${0%/*}
read -r bwrap <"$wall/bwrap"

fail() {
  echo "The sandbox does not hold, nothing was started: $1" >&2
  exit 125
}

# What the host has where, with which the inner sandbox compares what it has. Where the path of what is
# shown leads over a link outside of the workspace, the list of mounts has its target. All paths are
# written as in that list.
newline='
'
tab=$(printf '\t')
(
  while IFS=' ' read -r _ _ device root point _; do
    printf 'host %s %s %s\n' "$point" "$device" "$root"
  done </proc/self/mountinfo
  named=
  present=
  while IFS=' ' read -r kind path; do
    printf '%s %s\n' "$kind" "$path"
    [ "$kind" = outside ] || continue
    plain=$path
    case $path in
      *\\012*) continue ;; # of a path with a line break, the target is not looked for
      *\\*) plain=$(printf '%b/' "$path") && plain=${plain%/} ;;
    esac
    [ ! -e "$plain" ] || named=$named$path$newline present=$present$plain$newline
  done <"$wall/places"
  IFS=$newline
  set -f
  # shellcheck disable=SC2086 -- a line is a path
  realpath $present | sed "s/\\\\/\\\\134/g; s/ /\\\\040/g; s/$tab/\\\\011/g" | {
    for path in $named; do
      IFS= read -r real || fail "$path was moved while the sandbox was made"
      [ "$real" = "$path" ] || printf 'link %s %s\n' "$path" "$real"
    done
    ! IFS= read -r real || fail "a link leads to a path with a line break, $real"
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
