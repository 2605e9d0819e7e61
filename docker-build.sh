#!/usr/bin/env bash
# Builds the image `ipybox` (or $1) for the user who runs this: files that ipybox writes into the
# mounted workspace are then that user's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [ "$(id -u)" -eq 0 ]; then
  uid=${SUDO_UID:-1000} gid=${SUDO_GID:-1000}
  echo "Building for the user $uid:$gid, as containers should not run as root" >&2
else
  uid=$(id -u) gid=$(id -g)
fi
exec docker build --build-arg "UID=$uid" --build-arg "GID=$gid" --tag "${1:-ipybox}" .
