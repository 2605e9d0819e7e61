#!/bin/sh
# Starts the ipybox that is installed, else this checkout with the Deno that is installed, else with Deno
# from npm, which takes longest: Claude Code begins without the tools of a server that is late. Or starts
# Docker.
#
# What is in the current folder does not count: it may have come with a repository, or executed code may
# have written it. So no program is started before the PATH is clean, and npx starts in the root folder:
# it runs `sh` and what it was asked for with the node_modules/.bin of its current folder, and of all
# above, in front of the PATH.
#
#   start.sh deno@VERSION ARGUMENTS
#   start.sh docker ARGUMENTS
first=$1
shift
case $0 in
*/*) root=$(CDPATH='' cd -- "${0%/*}/.." && pwd -P) || exit 1 ;;
*) exit 1 ;;
esac
here=$(pwd -P) || exit 1

# What is left of the PATH without relative folders, the current folder's, and those of package runners.
clean=
set -f
IFS=:
for folder in $PATH; do
  case $folder/ in
  */node_modules/.bin/*) continue ;;
  /*) ;;
  *) continue ;;
  esac
  real=$(CDPATH='' cd -- "$folder" 2>/dev/null && pwd -P) || continue
  case $real/ in
  "$here"/* | */node_modules/.bin/*) continue ;;
  esac
  clean=${clean:+$clean:}$folder
done
unset IFS
set +f
PATH=${clean:-/usr/bin:/bin}
export PATH

if [ "$first" = docker ]; then
  exec docker "$@"
fi
if command -v ipybox >/dev/null; then
  exec ipybox "$@"
fi
if command -v deno >/dev/null; then
  case $(deno --version 2>/dev/null) in
  "deno 2."*) exec deno run -A --config "$root/deno.json" "$root/cli.ts" "$@" ;;
  esac
fi
deno=$(cd / && exec npx -y --package="$first" -c 'command -v deno') || exit 1
exec "$deno" run -A --config "$root/deno.json" "$root/cli.ts" "$@"
