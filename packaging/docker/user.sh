#!/bin/sh
# make-user UID GID: the container's user, with the host user's ids, so that what ipybox writes into
# the mounted workspace is the host user's. The base image may have the ids already.
set -eu
uid=$1
gid=$2

case "$uid:$gid" in
  *[!0-9:]* | :* | *:) echo "make-user: UID and GID are numbers: received $uid and $gid" >&2; exit 2 ;;
esac
if [ "$uid" -eq 0 ]; then
  echo "make-user: build as an ordinary user, not as root (UID 0)" >&2
  exit 2
fi
if owner=$(getent passwd "$uid"); then userdel --remove "${owner%%:*}" 2>/dev/null; fi
getent group "$gid" >/dev/null || groupadd --gid "$gid" ipybox
useradd --uid "$uid" --gid "$gid" --home-dir /home/ipybox --create-home --shell /bin/bash ipybox
