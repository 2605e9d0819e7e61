#!/bin/sh
exec deno run -A --no-config --no-lock --unstable-no-legacy-abort /app/ipybox.js "$@"
