/** Attacks by code that rewrites what a server outside the sandbox would run. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { ConfigError, McpConnectionError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { connectMcp } from "../../src/mcp/connect.ts";
import { shellWord } from "../../src/base/shell_word.ts";
import type { StdioServerParams } from "../../src/mcp/params.ts";
import { rawServer } from "../support/mcp.ts";
import { testPython } from "../support/python.ts";
import { ipybox } from "../support/cli.ts";
import { TempFolder } from "../support/temp_folder.ts";

const log = silentLogger;
const PACKAGE_RUNNERS = ["bunx", "pnpx", "uvx", "pipx"];
/** Ways to name a package in the folder `P`. */
const PACKAGE_COMMANDS = [
  "npx -y --loglevel silent P",
  "npx -p left-pad -p P srv",
  "npx --registry https://r/ -p P srv",
  "npm exec -y P",
  "npm exec -y --package=P -- srv",
  "npm --prefix x exec P",
  "bun x P",
  "pnpm dlx P",
  "uvx --python 3.12 --from P srv",
  "uv tool run --from P srv",
  "pipx run --python python3.11 --spec P srv",
  "dumb-init npx -y P",
  "mcp-proxy -- npx -y P",
];
/** Ways to give one that is elsewhere the folder `P`. */
const PACKAGE_DATA = [
  "npx -y server P",
  "npx --yes --prefer-offline @scope/server@1.0 P",
  "npx -p @scope/server srv P",
  "npm exec -y -- server P",
  "bun x server P",
  "uvx --no-cache --from server==1.0 srv P",
  "uv tool run server P",
  "pipx run --spec server srv P",
];

Deno.test("a server whose code executed code could replace is not started", async () => {
  await using folder = await TempFolder.create();
  await using outside = await TempFolder.create();
  const workspace = folder.path;
  const ran = `${outside.path}/ran`;
  const mark = `open(${JSON.stringify(ran)}, "w")\n`;
  await Deno.mkdir(`${workspace}/app`);
  await Deno.mkdir(`${workspace}/.venv/bin`, { recursive: true });
  await Deno.writeTextFile(`${workspace}/.venv/pyvenv.cfg`, "");
  for (
    const name of ["server.py", "json.py", "program", "app/__main__.py", ".venv/bin/server.py"]
  ) {
    await Deno.writeTextFile(`${workspace}/${name}`, mark);
  }
  await Deno.writeTextFile(`${workspace}/hook.sh`, `touch '${ran}'\n`);
  await Deno.writeTextFile(`${outside.path}/server.py`, "import json\n");
  await Deno.symlink(`${outside.path}/server.py`, `${workspace}/link.py`);
  await Deno.symlink(`${workspace}/program`, `${outside.path}/detour`);
  await Deno.symlink(testPython(), `${outside.path}/other-name`);
  await Deno.symlink("/usr/bin/awk", `${outside.path}/some-awk`);
  await Deno.mkdir(`${workspace}/.ipybox`);
  for (const name of ["server.js", "server.ts"]) {
    await Deno.writeTextFile(`${workspace}/.ipybox/${name}`, "#!/bin/true\n", { mode: 0o755 });
  }
  await Deno.mkdir(`${workspace}/node_modules/.bin`, { recursive: true });
  const planted = `#!/bin/sh\ntouch '${ran}'\n`;
  await Deno.writeTextFile(`${workspace}/node_modules/.bin/sh`, planted, { mode: 0o755 });
  for (const name of ["notes.txt", "compose.yml", "recipe.conf"]) {
    await Deno.writeTextFile(`${workspace}/${name}`, `BEGIN { system("touch ${ran}") }`);
  }
  const words = [...PACKAGE_COMMANDS, ...PACKAGE_DATA].map((line) => line.split(" ", 1)[0] ?? "");
  for (const name of new Set([...words, ...PACKAGE_RUNNERS])) {
    await Deno.symlink("/bin/true", `${outside.path}/${name}`);
  }
  const commandOf = (line: string): StdioServerParams => {
    const [name, ...args] = line.split(" ");
    return {
      command: `${outside.path}/${name}`,
      args: args.map((arg) => arg.replace("P", `${workspace}/app`)),
    };
  };
  for (const line of PACKAGE_DATA) {
    const connect = () => connectMcp("x", commandOf(line), { workspace, log });
    await assertRejects(connect, McpConnectionError, undefined, line); // `true` is no server
  }
  for (const name of ["node", "swift", "docker", "jbang", "nix", "tool"]) {
    await Deno.symlink("/bin/true", `${outside.path}/${name}`);
  }
  const python = testPython();
  const deno = Deno.execPath();
  const attacks: Record<string, StdioServerParams> = {
    script: { command: python, args: [`${workspace}/server.py`] },
    "script that is not there yet": { command: python, args: [`${workspace}/later`] },
    link: { command: python, args: [`${workspace}/link.py`] },
    "link to the workspace": { command: python, args: [`${outside.path}/detour`] },
    "relative script": { command: python, args: ["server.py"], cwd: workspace },
    "script without a suffix": { command: python, args: ["-u", "program"], cwd: "." },
    "folder that is run": { command: python, args: [`${workspace}/app`] },
    module: { command: python, args: ["-m", "app"], cwd: workspace },
    "module search": { command: python, args: ["-c", "import json"], cwd: workspace },
    "another name": { command: `${outside.path}/other-name`, args: [`${workspace}/program`] },
    "behind another program": { command: "/usr/bin/env", args: [python, `${workspace}/server.py`] },
    URL: { command: Deno.execPath(), args: ["run", `file://${workspace}/program`] },
    option: { command: Deno.execPath(), args: ["run", `--config=${workspace}/deno.json`, "npm:x"] },
    variable: { ...rawServer(), env: { LD_PRELOAD: `${workspace}/x.so` } },
    "search path": { command: python, args: ["-m", "x"], env: { PYTHONPATH: `/usr:${workspace}` } },
    "compiled code": { ...rawServer(), env: { PYTHONPYCACHEPREFIX: `${workspace}/cache` } },
    ...Object.fromEntries(
      ["COMPOSE_FILE", "KUBECONFIG", "GIT_SSH_COMMAND", "R_LIBS_USER", "LUA_PATH_5_4"].map((
        name,
      ) => [
        `variable ${name}`,
        { ...rawServer(), env: { [name]: `${workspace}/program` } },
      ]),
    ),
    "home directory": { command: python, args: ["-m", "x"], env: { HOME: workspace } },
    "cache of packages": {
      command: "npx",
      args: ["-y", "x"],
      env: { npm_config_cache: `${workspace}/cache` },
    },
    "Python of a package runner": {
      command: `${outside.path}/uvx`,
      args: ["x"],
      env: { UV_PYTHON: `${workspace}/program` },
    },
    "packages of a package runner": {
      command: `${outside.path}/uvx`,
      args: ["x"],
      env: { UV_FIND_LINKS: `${workspace}/app` },
    },
    package: { command: "npx", args: ["-y", `${workspace}/app`] },
    shell: { command: "/bin/sh", args: [`${workspace}/hook.sh`] },
    awk: { command: "awk", args: ["-f", `${workspace}/program`] },
    "awk with another name": {
      command: `${outside.path}/some-awk`,
      args: [`-f${workspace}/program`],
    },
    "sed, by a name of data": { command: "sed", args: ["-f", `${workspace}/notes.txt`] },
    swift: {
      command: `${outside.path}/swift`,
      args: ["run", "--package-path", `${workspace}/app`],
    },
    compose: {
      command: `${outside.path}/docker`,
      args: ["compose", "-f", `${workspace}/compose.yml`],
    },
    "compose in the folder": {
      command: `${outside.path}/docker`,
      args: ["compose", "up"],
      cwd: workspace,
    },
    "an unknown program's file": {
      command: `${outside.path}/tool`,
      args: ["go", `--recipe=${workspace}/recipe.conf`],
    },
    "a file after the program": {
      command: python,
      args: [`${outside.path}/server.py`, `${workspace}/recipe.conf`],
    },
    "script for jbang": { command: `${outside.path}/jbang`, args: [`${workspace}/program`] },
    "flake in the workspace": { command: `${outside.path}/nix`, args: ["run", `${workspace}/app`] },
    "command of a shell": { command: "/bin/sh", args: ["-c", "sh ./hook*"], cwd: workspace },
    "behind another program, by the folder": {
      command: "/usr/bin/env",
      args: [python, "-m", "app"],
      cwd: workspace,
    },
    // npx runs `sh` by a search path with the folder's node_modules/.bin, and those above, in front.
    "package runner": { command: "npx", args: ["-c", "true"], cwd: "${workspaceFolder}" },
    "package runner below": { command: "npx", args: ["-c", "true"], cwd: ".ipybox" },
    ...Object.fromEntries(PACKAGE_COMMANDS.map((line) => [line, commandOf(line)])),
    ...Object.fromEntries(
      PACKAGE_RUNNERS.map((name) => [
        name,
        { command: `${outside.path}/${name}`, args: ["some-package"], cwd: workspace },
      ]),
    ),
    // These find packages and settings in the folders above what they run.
    "code for Deno in .ipybox": { command: deno, args: ["run", `${workspace}/.ipybox/server.ts`] },
    "code for Node in .ipybox": {
      command: `${outside.path}/node`,
      args: [`${workspace}/.ipybox/server.js`],
    },
    "script in an environment": { command: python, args: [`${workspace}/.venv/bin/server.py`] },
    "program for Node in .ipybox": { command: `${workspace}/.ipybox/server.js` },
    "option after the program": {
      command: deno,
      args: ["run", `${workspace}/.ipybox/server.ts`, "--no-config"],
    },
  };
  for (const [name, params] of Object.entries(attacks)) {
    const connect = () => connectMcp("x", params, { workspace, log, connectTimeoutMs: 5000 });
    const { message } = await assertRejects(connect, ConfigError, undefined, name);
    assertStringIncludes(message, "executed code could replace", name);
    assertStringIncludes(message, ".ipybox/", name);
    assert(!message.includes("/_"), name); // no such file
  }
  const { code, stderr } = await ipybox(
    ["register", "mini", "--", python, `${workspace}/server.py`],
    { cwd: workspace },
  );
  assertEquals(code === 0, false);
  assertStringIncludes(stderr, `${workspace}/server.py`);
  await assertRejects(() => Deno.lstat(ran), Deno.errors.NotFound);
});

Deno.test("a server may be given data of the workspace, and code out of reach", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  for (const name of ["data.db", "memory.json", "Report 2026.XLSX", "notes.md"]) {
    await Deno.writeTextFile(`${workspace}/${name}`, "");
  }
  await Deno.mkdir(`${workspace}/.ipybox`);
  const { command, args = [] } = rawServer();
  const file = args.find((arg) => arg.endsWith(".ts")) ?? "";
  const hidden = `${workspace}/.ipybox/server.ts`;
  await Deno.copyFile(file, hidden);
  const moved = (to: string) => args.map((arg) => arg === file ? to : arg);
  await using outside = await TempFolder.create();
  const program = `#!/bin/sh\nexec ${[command, ...args].map(shellWord).join(" ")}\n`;
  for (const name of ["docker", "jbang", "nix"]) {
    await Deno.writeTextFile(`${outside.path}/${name}`, program, { mode: 0o755 });
  }
  const accepted: Record<string, StdioServerParams> = {
    "file as data": {
      command,
      args: [...args, "/dev/null", `${workspace}/data.db`, "x".repeat(300) + ".js"],
      cwd: workspace,
    },
    "files of known kinds": {
      command,
      args: [
        ...args,
        `${workspace}/memory.json`,
        `--workbook=${workspace}/Report 2026.XLSX`,
        `-d${workspace}/notes.md`,
        `--output=${workspace}/not-there-yet`,
      ],
    },
    "folder as data": {
      command,
      args: [...args, "/dev/null", workspace, "--root=${workspaceFolder}"],
    },
    "folder for a container": {
      command: `${outside.path}/docker`,
      args: ["run", "-i", "--rm", "-v", `${workspace}/shots:/shots`, "some/image", workspace],
    },
    "folder for a package": {
      command: `${outside.path}/jbang`,
      args: ["--quiet", "filesystem@quarkiverse/quarkus-mcp-servers", workspace],
    },
    "folder for a flake": {
      command: `${outside.path}/nix`,
      args: ["run", "github:owner/server", "--", workspace],
    },
    permission: { command, args: ["run", `--allow-read=${workspace}`, ...args.slice(2)] },
    variable: { command, args, cwd: workspace, env: { NODE_OPTIONS: "--max-old-space-size=99" } },
    "code in .ipybox": { command, args: moved(hidden) },
  };
  for (const [name, params] of Object.entries(accepted)) {
    await using connection = await connectMcp("x", params, { workspace, log });
    assertEquals((await connection.listTools()).length > 0, true, name);
  }
});

Deno.test("the program of a server comes from no .env of the workspace, which a repository may change", async () => {
  await using folder = await TempFolder.create();
  const workspace = folder.path;
  const { command, args = [] } = rawServer();
  await Deno.writeTextFile(`${workspace}/.env`, `RUNNER=${command}\nFIRST=${args[0]}\n`);
  const rest = args.slice(1);
  const named = { command: "${RUNNER}", args };
  await assertRejects(
    () => connectMcp("x", named, { workspace, log }),
    ConfigError,
    "the workspace's .env must not name its program. Set ${RUNNER} in your environment",
  );
  const others: StdioServerParams[] = [
    { command, args: ["${FIRST}", ...rest] },
    { command: `\${UNSET_RUNNER:-${command}}`, args },
  ];
  for (const params of others) {
    await using connection = await connectMcp("x", params, { workspace, log });
    assertEquals((await connection.listTools()).length > 0, true);
  }
});
