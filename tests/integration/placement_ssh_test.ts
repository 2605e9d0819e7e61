/** Kernels on a machine that ssh leads to: a real sshd, on loopback and behind a link that can be cut. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { EnvironmentNotReadyError, KernelDiedError } from "../../src/base/errors.ts";
import { TestExecutor } from "../support/executor.ts";
import { rawServer } from "../support/mcp.ts";
import { useSession } from "../support/placed.ts";
import { testPython } from "../support/python.ts";
import { testIf } from "../support/skip.ts";
import { run, Sshd, whyNoSshd } from "../support/sshd.ts";
import { TempFolder } from "../support/temp_folder.ts";
import { rejection, until } from "../support/wait.ts";

const why = await whyNoSshd();
const test = (name: string, fn: () => Promise<void>) =>
  testIf(why === undefined, `sshd cannot be started: ${why}`, { name, fn });

test("a session by ssh does what one here does, behind a wall that is built there", async () => {
  await using sshd = await Sshd.start();
  const { host, args } = sshd;
  await using started = await TestExecutor.start({ placement: { type: "ssh", host, args } });
  await useSession(started.executor);
});

test("names there may have quotes, spaces and line breaks", async () => {
  await using sshd = await Sshd.start();
  const { host, args } = sshd;
  await using parent = await TempFolder.create();
  const folder = `${parent.path}/it's a "place"\n$(touch planted); \`x\``;
  await Deno.mkdir(folder);
  await Deno.symlink(testPython(), `${folder}/python3`);
  const placement = { type: "ssh", host, args, workspace: `${folder}/work` } as const;
  const python = `${folder}/python3`;
  // A link to an environment's Python is none of that environment, which is said by its words.
  const error = await rejection(TestExecutor.start({ placement, python }));
  assert(error instanceof EnvironmentNotReadyError, `${error}`);
  assertMatch(error.message, /lacks .*ipykernel/);
  await using started = await TestExecutor.start({ placement });
  const { text } = await started.executor.execute(
    "import os; print(os.getcwd())\nopen('made', 'w').close()",
  );
  assertEquals(text, `${folder}/work`);
  await Deno.stat(`${folder}/work/made`);
  assertEquals((await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).sort(), [
    "python3",
    "work",
  ]);
});

test("a machine that lets nobody in, or lacks something, is refused with what to do", async () => {
  await using sshd = await Sshd.start();
  const { host, args } = sshd;
  const attempt = async (more: readonly string[], python?: string) => {
    const placement = { type: "ssh", host, args: [...more, ...args] } as const;
    const error = await rejection(TestExecutor.start({ placement, ...(python && { python }) }));
    assert(error instanceof EnvironmentNotReadyError, `${error}`);
    return error;
  };
  const stranger = await attempt(["-o", "PubkeyAuthentication=no"]);
  assertMatch(stranger.message, /Permission denied/);
  assertMatch(stranger.fix, /ssh \S+ true/);
  const closed = await attempt(["-p", "1"]);
  assertMatch(closed.message, /Connection refused/);
  const missing = await attempt([], "/no/such/python3");
  assertMatch(missing.message, /no\/such\/python3/);
  assertMatch(missing.fix, /--python/);
  const bare = await attempt([], "/usr/bin/python3");
  assertMatch(bare.message, /lacks jupyter_kernel_gateway/);
  assertMatch(bare.fix, /-m pip install jupyter_kernel_gateway/);
});

testIf(
  why === undefined && Deno.uid() === 0,
  why ?? "only root makes network namespaces",
  {
    name: "a link that is cut in mid-call ends the session with an error, and its question is void",
    fn: async () => {
      await using link = await CutLink.create();
      await using sshd = await Sshd.start({ address: link.far, prefix: link.prefix });
      const { host } = sshd;
      const args = ["-o", "ServerAliveInterval=1", ...sshd.args];
      await using started = await TestExecutor.start({ placement: { type: "ssh", host, args } });
      const { executor } = started;
      await executor.execute("a = 1");
      await executor.registerServer("raw", rawServer());

      let decided: Promise<unknown> | undefined;
      const error = await rejection((async () => {
        for await (const event of executor.stream("from mcptools.raw import echo; echo.run({})")) {
          if (event.type !== "approval") continue;
          await link.cut();
          decided = event.request.response;
        }
      })());
      assert(error instanceof KernelDiedError, `${error}`);
      assertMatch(error.message, /connection to the kernel gateway has ended[\s\S]*ssh/);
      assertStringIncludes(JSON.stringify(await decided), "false");

      // It was not there when the next one was asked for.
      const still = await rejection(executor.execute("1"));
      assert(still instanceof Error);
      await link.restore();
      await until("the machine is back", async () => {
        const result = await executor.execute("'a' in globals()").catch(() => undefined);
        return result?.text === "False";
      });
    },
  },
);

/** A machine of its own, as far as the network is concerned, and the cable to it. */
class CutLink implements AsyncDisposable {
  readonly near: string;
  readonly far: string;
  readonly prefix: readonly string[];
  readonly #name: string;

  private constructor(number: number) {
    this.#name = `ipyb${number}`;
    this.near = `10.213.${number}.1`;
    this.far = `10.213.${number}.2`;
    this.prefix = ["ip", "netns", "exec", this.#name];
  }

  static async create(): Promise<CutLink> {
    const link = new CutLink(crypto.getRandomValues(new Uint8Array(1))[0] ?? 0);
    const name = link.#name;
    await run("ip", "netns", "add", name);
    await run("ip", "link", "add", `${name}a`, "type", "veth", "peer", `${name}b`, "netns", name);
    await run("ip", "address", "add", `${link.near}/30`, "dev", `${name}a`);
    await run("ip", "link", "set", `${name}a`, "up");
    await run(...inside(link, "ip", "address", "add", `${link.far}/30`, "dev", `${name}b`));
    for (const device of ["lo", `${name}b`]) {
      await run(...inside(link, "ip", "link", "set", device, "up"));
    }
    return link;
  }

  async cut(): Promise<void> {
    await run("ip", "link", "set", `${this.#name}a`, "down");
  }

  async restore(): Promise<void> {
    await run("ip", "link", "set", `${this.#name}a`, "up");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await run("ip", "link", "del", `${this.#name}a`);
    await run("ip", "netns", "del", this.#name);
  }
}

function inside({ prefix }: CutLink, ...command: string[]): [string, ...string[]] {
  const [program = "", ...args] = prefix;
  return [program, ...args, ...command];
}
