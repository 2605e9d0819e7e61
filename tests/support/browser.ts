/**
 * A real browser for tests of pages: Chromium as Debian packages it, without a window.
 *
 * @module
 */
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { findPackageManager, installPackages } from "../../src/sandbox/system_packages.ts";
import { testIf } from "./skip.ts";

const PATHS = ["/usr/bin/chromium", "/usr/bin/google-chrome", "/usr/bin/google-chrome-stable"];

/** Installs Chromium where it is missing and that needs no prompt. */
export async function installChromium(
  options: { yes: boolean; onProgress: (line: string) => void; signal: AbortSignal },
): Promise<void> {
  if (findChromium() !== undefined) return;
  const manager = await findPackageManager();
  // Elsewhere, the package is called otherwise, or leads to a store of apps.
  if (manager?.name !== "apt-get") return;
  options.onProgress("The tests install:\n  - system packages: chromium (apt-get)");
  try {
    await installPackages(["chromium"], options);
  } catch (error) {
    options.signal.throwIfAborted();
    options.onProgress(`Tests of pages are left out: ${error}`);
  }
}

/**
 * A test that needs a browser. It is left out, and says so, where there is none.
 *
 * @param name The test's name.
 * @param fn The test.
 * @param args Further options of Chromium.
 */
export function browserTest(
  name: string,
  fn: (browser: TestBrowser) => Promise<void>,
  args: readonly string[] = [],
): void {
  testIf(findChromium() !== undefined, "there is no Chromium: apt-get install chromium", {
    name,
    fn: async () => {
      await using browser = await TestBrowser.launch(args);
      await fn(browser);
    },
  });
}

/** A browser of a test's own. Disposing closes it. */
export class TestBrowser implements AsyncDisposable {
  /** What pages complained of: errors, uncaught exceptions, violations of their policy. */
  readonly problems: string[] = [];
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  /**
   * Starts it.
   *
   * @param args Further options of Chromium.
   * @returns The running browser.
   */
  static async launch(args: readonly string[]): Promise<TestBrowser> {
    const executablePath = findChromium();
    if (executablePath === undefined) throw new Error("There is no Chromium");
    const sandbox = Deno.uid() === 0 ? ["--no-sandbox"] : []; // it refuses to run as root with it
    const browser = await chromium.launch({ executablePath, args: [...sandbox, ...args] });
    return new TestBrowser(browser);
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
    await this.#browser.close();
  }
}

function findChromium(): string | undefined {
  return PATHS.find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false; // not there
    }
  });
}
