import { z } from "zod";
import { parseRequirement } from "../../python/requirement.ts";
import { foreignBlock } from "../../approval/call_text.ts";
import { success } from "../failure.ts";
import { addTool, type ToolHost } from "../tool.ts";

const FROM_GIT = ', or, if the user agrees, "git+https://HOST/OWNER/REPO@TAG"';

const describe = (others: string): string =>
  `
Installs a Python package for this workspace, such as "pandas" or "numpy>=2,<3"${others}. It can be imported without reset.
`.trim();

export function registerInstall(host: ToolHost): void {
  addTool(host, "install_package", {
    title: "Install a Python package",
    description: describe(host.session.changes === "fixed" ? "" : FROM_GIT),
    input: () => z.object({ package_name: z.string().describe("The package") }),
    hints: ["idempotent", "openWorld"],
  }, async ({ package_name: name }, request) => {
    const { host: source, text } = parseRequirement(name);
    const change = {
      tool: "install_package",
      parameters: { package_name: text },
      question: source === undefined ? undefined : {
        description:
          `Install this Python package from a Git repository? Its installation runs in a ` +
          `sandbox that can reach ${source}:\n\n${foreignBlock([text])}`,
        summary: "Installing from a Git repository",
        byHand: "Ask the user, or install a package from the package index instead",
        effect:
          `Installs from a Git repository. The installation runs in a sandbox that can reach ${source}`,
      },
    };
    const { makeChange } = await import("./make_change.ts");
    return await makeChange(change, request, async () => {
      const { work, ctx } = request;
      work.activity = `Installing ${text}`;
      const { executor } = await work.kernel();
      const output = await executor.installPackages(text, {
        signal: ctx.mcpReq.signal,
        onLine: (line) => {
          work.activity = line;
        },
      });
      return success(output);
    });
  });
}
