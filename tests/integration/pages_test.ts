import { assertEquals, assertStringIncludes } from "@std/assert";
import { pathToFileURL } from "node:url";
import { browserTest } from "../support/browser.ts";
import { TestKernel } from "../support/kernel.ts";

const LIBRARY = "https://library.invalid/plot.js";

browserTest("A page that cannot load its library says so", async (browser) => {
  await using kernel = await TestKernel.start();
  const script = `<script src="${LIBRARY}"></script>`;
  const part = `<p id="own">own</p>${script}`;
  const whole = `<!DOCTYPE html><html lang="de"><head>${script}</head><body><p id="own">own</p>`;
  const late = `<p id="own">own</p><script>addEventListener("load", () => setTimeout(() => {
    document.head.append(Object.assign(document.createElement("script"), { src: "${LIBRARY}" }));
  }))</script>`;
  const complete = `<p id="own">own</p><script>document.body.append(" drawn")</script>`;
  const pages = { part, whole, late, complete };
  await kernel.text("from IPython.display import HTML");
  for (const [name, html] of Object.entries(pages)) {
    const text = await kernel.text(`HTML(${JSON.stringify(html)})`);
    const [, path = ""] = /^\[HTML: (.*)\]$/.exec(text ?? "") ?? [];
    const page = await browser.open(pathToFileURL(path));
    assertEquals(await page.locator("#own").textContent(), "own", name);
    assertEquals(await page.evaluate("document.compatMode"), "CSS1Compat", name);
    if (name === "complete") {
      assertEquals((await page.locator("body").innerText()).trim(), "own\n\ndrawn");
    } else {
      const note = page.getByText("This page could not load");
      assertStringIncludes(await note.innerText(), `could not load ${LIBRARY}`, name);
    }
    if (name === "whole") assertEquals(await page.locator("html").getAttribute("lang"), "de");
  }
});
