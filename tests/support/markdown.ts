/**
 * Code in documentation that says which file it is.
 *
 * @module
 */

/**
 * Finds the code blocks of a language.
 *
 * @param markdown The document.
 * @param language The language behind the fence.
 * @returns The code of each, in order.
 */
export function codeBlocks(markdown: string, language: string): string[] {
  return [...markdown.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)]
    .filter(([, name]) => name === language)
    .map(([, , code]) => code ?? "");
}

/**
 * Writes the Python blocks whose first line is a path, such as `# gentools/a/b/api.py`, and an empty
 * `__init__.py` where a package lacks one.
 *
 * @param folder Where.
 * @param markdown The document.
 * @returns The paths that were written.
 */
export async function writePythonBlocks(folder: string, markdown: string): Promise<string[]> {
  const written: string[] = [];
  for (const block of codeBlocks(markdown, "python")) {
    const [, path] = /^# ([\w/]+\.py)\n/.exec(block) ?? [];
    if (path === undefined) continue;
    const steps = path.split("/").slice(0, -1);
    await Deno.mkdir(`${folder}/${steps.join("/")}`, { recursive: true });
    for (let depth = 1; depth <= steps.length; depth++) {
      const init = `${folder}/${steps.slice(0, depth).join("/")}/__init__.py`;
      await Deno.writeTextFile(init, "", { append: true }); // leaves one that is there as it is
    }
    await Deno.writeTextFile(`${folder}/${path}`, block);
    written.push(path);
  }
  return written;
}
