/**
 * A real browser for tests of pages: Chromium as Debian packages it, without a window. There is a
 * package of Chromium that cannot open any, whose pages take a quarter of the processor time.
 *
 * @module
 */
import {
  type Browser,
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from "npm:playwright-core@1.65.1";
import { findPackageManager, installPackages } from "../../src/sandbox/system_packages.ts";
import { testIf } from "./skip.ts";

export type { BrowserContextOptions, Page };

const PROGRAMS = ["chromium-headless-shell", "chromium", "google-chrome", "google-chrome-stable"];
const PACKAGES = ["chromium-headless-shell", "chromium"]; // not every release has the first

/** Installs Chromium where it is missing and that needs no prompt. */
export async function installChromium(
  options: { yes: boolean; onProgress: (line: string) => void; signal: AbortSignal },
): Promise<void> {
  if (findChromium() !== undefined) return;
  const manager = await findPackageManager();
  // Elsewhere, the package is called otherwise, or leads to a store of apps.
  if (manager?.name !== "apt-get") return;
  for (const name of PACKAGES) {
    options.onProgress(`The tests install:\n  - system packages: ${name} (apt-get)`);
    try {
      return await installPackages([name], options);
    } catch (error) {
      options.signal.throwIfAborted();
      options.onProgress(`Cannot install ${name}: ${error}`);
    }
  }
  options.onProgress("Tests of pages are left out");
}

/** Uses a browser outside of tests. */
export async function withBrowser<T>(use: (browser: TestBrowser) => Promise<T>): Promise<T> {
  const program = findChromium();
  if (program === undefined) throw new Error("There is no Chromium: apt-get install chromium");
  await using parts = new AsyncDisposableStack();
  const running = parts.adopt(await launch(program), (own) => own.close());
  return await use(parts.use(new TestBrowser(running)));
}

/** What the tests of a file share. It starts before the first of them, and ends after the last. */
let shared: Promise<Browser> | undefined;

/**
 * A test that needs a browser. It is left out, and says so, where there is none.
 *
 * @param name The test's name.
 * @param fn The test.
 */
export function browserTest(
  name: string,
  fn: (browser: TestBrowser, context: Deno.TestContext) => Promise<void>,
): void {
  const program = findChromium();
  if (program !== undefined) share(program);
  testIf(program !== undefined, "there is no Chromium: apt-get install chromium", {
    name,
    fn: async (context) => {
      const running = await shared;
      if (running === undefined) throw new Error("There is no Chromium");
      await using browser = new TestBrowser(running);
      await fn(browser, context);
    },
  });
}

function share(program: string): void {
  if (sharing) return;
  sharing = true;
  Deno.test.beforeAll(async () => void await (shared = launch(program)));
  Deno.test.afterAll(async () => await (await shared)?.close());
}

let sharing = false;

async function launch(executablePath: string): Promise<Browser> {
  const args = Deno.uid() === 0 ? ["--no-sandbox"] : []; // it refuses to run as root with its sandbox
  return await chromium.launch({ executablePath, args });
}

/** A browser as one test has it. Disposing closes the test's pages. */
export class TestBrowser implements AsyncDisposable {
  /** What pages complained of: errors, uncaught exceptions, violations of their policy. */
  readonly problems: string[] = [];
  readonly #browser: Browser;
  readonly #contexts: BrowserContext[] = [];

  constructor(browser: Browser) {
    this.#browser = browser;
  }

  /**
   * Opens a page in a profile of its own. What it complains of is kept.
   *
   * @param url Where it leads.
   * @param options The size, the colours and so on.
   * @returns The page.
   */
  async open(url: URL | string, options: BrowserContextOptions = {}): Promise<Page> {
    const context = await this.#browser.newContext(options);
    this.#contexts.push(context);
    context.on("weberror", (error) => void this.problems.push(String(error.error())));
    context.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") {
        this.problems.push(`${message.text()} ${message.location().url}`);
      }
    });
    const page = await context.newPage();
    await page.goto(String(url));
    return page;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#contexts.map((context) => context.close()));
  }
}

function findChromium(): string | undefined {
  return PROGRAMS.map((name) => `/usr/bin/${name}`).find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false; // not there
    }
  });
}
