#!/bin/sh
exec deno run -A --no-config --no-lock /app/ipybox.js "$@"
