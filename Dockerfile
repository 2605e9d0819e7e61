# syntax=docker/dockerfile:1
# ipybox as an MCP server in a container: docs/placements.md says how to run it.

FROM node:22.20.0-bookworm-slim AS build
WORKDIR /src
COPY . .
RUN npx -y deno@2.9.6 bundle --quiet --output /src/dist/ipybox.js cli.ts

FROM node:22.20.0-bookworm-slim
ARG UID=1000
ARG GID=1000
# Versions are Debian's of the pinned base image.
# hadolint ignore=DL3008
RUN apt-get update \
  && apt-get install --yes --no-install-recommends \
    bubblewrap ca-certificates git python3 python3-venv ripgrep socat tini \
  && rm -rf /var/lib/apt/lists/*
RUN npm install --global --ignore-scripts deno@2.9.6 && npm cache clean --force \
  && python3 -m venv /opt/uv && /opt/uv/bin/pip install --no-cache-dir uv==0.13.9 \
  && ln -s /opt/uv/bin/uv /opt/uv/bin/uvx /usr/local/bin/
COPY packaging/docker/user.sh /usr/local/sbin/make-user
RUN make-user "$UID" "$GID" && mkdir -p /app/workspace && chown "$UID:$GID" /app /app/workspace
COPY --from=build /src/dist/ipybox.js /app/ipybox.js
COPY packaging/docker/ipybox.sh /usr/local/bin/ipybox
USER $UID:$GID
ENV HOME=/home/ipybox
# A volume there keeps which servers you registered, logins, and the workspaces of projects.
RUN mkdir -p /home/ipybox/.local
# The sandbox cannot be tried while the image is built, so its runtime is fetched by name.
RUN ipybox setup --no-sandbox \
  && deno cache --quiet --no-config npm:@anthropic-ai/sandbox-runtime@0.0.83
WORKDIR /app/workspace
ENTRYPOINT ["tini", "--", "ipybox", "mcp"]
