#!/bin/sh
# srt runs this instead of bubblewrap to create the outer sandbox.
#
# The kernel allows the inner one a separate /proc only if another one is fully visible, and as
# root, bubblewrap covers parts of the one that it creates. So the host's is mounted beside it.
# Programs inside do not see it, because the inner sandbox has another /dev.

wall=${0%/*}
read -r bwrap <"$wall/bwrap"

fail() {
  echo "The sandbox does not hold, nothing was started: $1" >&2
  exit 125
}

# Lists the host's mounts, to be compared with those of the inner sandbox. If the path to something
# shown leads through a link outside the workspace, the mount list has the target. All paths are
# written as in that list.
newline='
'
tab=$(printf '\t')
(
  # The number of a device that is gone can become another one's, but seldom of the same type.
  while IFS=' ' read -r _ _ device root point rest; do
    rest=${rest#* - }
    printf 'host %s %s/%s %s\n' "$point" "$device" "${rest%% *}" "$root"
  done </proc/self/mountinfo
  named=
  present=
  while IFS=' ' read -r kind path; do
    printf '%s %s\n' "$kind" "$path"
    [ "$kind" = outside ] || continue
    plain=$path
    case $path in
      *\\012*) continue ;; # targets of paths with line breaks are not resolved
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
    # With the host's /proc, bubblewrap finds itself only by its host process id.
    --unshare-pid) [ -n "$fresh" ] || continue ;;
  esac
  words="$words \"\${$index}\""
done
eval "exec \"\$bwrap\" $words"
