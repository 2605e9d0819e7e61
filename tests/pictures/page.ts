import { pageLinkIn, untilReady, untilWaiting } from "../support/approval_page.ts";
import type { TestBrowser } from "../support/browser.ts";
import { startIpybox } from "../support/cli.ts";
import { showTime } from "../support/in_page.js";
import type { Home } from "./home.ts";

const CODE = `
import asyncio
from mcptools.notes import edit_file, read_text_file

done = {
    "monday": ("Book the train", "- [ ] Print the tickets"),
    "tuesday": ("Send Mina the budget", "- [ ] Ask for a reply"),
    "wednesday": ("Order a lamp", "- It comes on Friday"),
}
for day in done:
    print(read_text_file.run(path=f"{day}.md").content)

def tick(todo, more):
    return {"oldText": f"- [ ] {todo}\\n", "newText": f"- [x] {todo}\\n{more}\\n"}

await asyncio.gather(*(
    edit_file.run_async(path=f"{day}.md", edits=[tick(*entry)])
    for day, entry in done.items()
))
`.trimStart();

/** The page's size, and how many pixels of the picture each of its own has. */
const WIDTH = 960;
const HEIGHT = 704;
const SCALE = 4 / 3;

/**
 * Photographs the approval page while three calls wait, after three that were allowed.
 *
 * @param browser What shows the page.
 * @param home Whose project it is, with the server `notes`.
 * @returns The PNG.
 */
export async function photographPage(browser: TestBrowser, home: Home): Promise<Uint8Array> {
  await using child = startIpybox(["run", "--page", "-c", CODE], {
    cwd: home.project,
    env: home.env,
    stdout: "null",
  });
  const page = await browser.open(await pageLinkIn(child.stderr), {
    viewport: { width: WIDTH, height: HEIGHT },
    deviceScaleFactor: SCALE,
    colorScheme: "light",
  });
  for (const day of ["monday", "tuesday", "wednesday"]) {
    await page.locator("#detail").getByText(`${day}.md`).first().waitFor();
    await untilReady(page);
    await page.keyboard.press("y");
  }
  await untilWaiting(page, 3);
  await untilReady(page);
  await page.evaluate(showTime, "09:41"); // not that of this machine
  return await page.screenshot({ animations: "disabled" });
}
