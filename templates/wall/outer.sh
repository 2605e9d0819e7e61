#!/bin/sh
# srt runs this as bubblewrap, to make the outer sandbox.
#
# The kernel gives the inner one a /proc of its own only where another one is visible whole, and
# bubblewrap covers parts of the one that it makes for root. So the host's is mounted beside it: what
# runs inside does not see it, as the inner sandbox has another /dev.

read -r bwrap <"${0%/*}/bwrap"
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
