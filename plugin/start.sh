#!/bin/sh
# Starts the ipybox that is installed, else this checkout with the Deno that is installed, else with Deno
# from npm, which takes longest: Claude Code begins without the tools of a server that is late.
#
# What is in the current folder does not count: executed code can write there. So npx gets a prefix,
# too: it would run a node_modules/deno of that folder.
#
#   start.sh deno@VERSION ARGUMENTS
deno=$1
shift
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1

# Finds a program on the PATH, outside the current folder.
found() {
  program=$(command -v -- "$1") || return 1
  folder=$(CDPATH='' cd -- "$(dirname -- "$program")" && pwd -P) || return 1
  case $program in
  /*) ;;
  *) return 1 ;;
  esac
  case $folder/ in
  "$(pwd -P)"/*) return 1 ;;
  esac
}

if found ipybox; then
  exec "$program" "$@"
fi
if found deno; then
  case $("$program" --version 2>/dev/null) in
  "deno 2."*) exec "$program" run -A --config "$root/deno.json" "$root/cli.ts" "$@" ;;
  esac
fi
exec npx --prefix "$root" -y "$deno" run -A --config "$root/deno.json" "$root/cli.ts" "$@"
