import { z } from "zod";
import { parseRequirement } from "../../python/requirement.ts";
import { explained } from "../failure.ts";
import { Preparation, RequestProgress } from "../request_progress.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { Session } from "../session.ts";
import type { DeclareInput } from "../tool_input.ts";
import { foreignBlock } from "../cell_report.ts";

const FROM_GIT = ', or, if the user agrees, "git+https://HOST/OWNER/REPO@TAG"';

const describe = (others: string): string =>
  `
Installs a Python package for this workspace, such as "pandas" or "numpy>=2,<3"${others}. It can be imported without reset.
`.trim();

const outputSchema = () =>
  z.object({
    package: z.string(),
    output: z.string().describe("The installer's output"),
  });

/** Adds `install_package`. */
export function registerInstall(
  server: SdkMcpServer,
  session: Session,
  declare: DeclareInput,
): void {
  server.registerTool("install_package", {
    title: "Install a Python package",
    description: describe(session.changes === "fixed" ? "" : FROM_GIT),
    inputSchema: declare(() =>
      z.object({
        package_name: z.string().describe("The package"),
      })
    ),
    ...session.answers.declare(outputSchema),
    annotations: {
      readOnlyHint: false,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: true,
    },
  }, async ({ package_name: name }, ctx) => {
    try {
      const work = new Preparation(session);
      using progress = RequestProgress.of(work, ctx, session.log);
      const requirement = parseRequirement(name);
      const { host, text } = requirement;
      const change = {
        tool: "install_package",
        parameters: { package_name: text },
        question: host === undefined ? undefined : {
          description:
            `Install this Python package from a Git repository? Its installation runs in a ` +
            `sandbox that can reach ${host}:\n\n${foreignBlock([text])}`,
          what: "Installing from a Git repository",
          byHand: "Ask the user, or install a package from the package index instead",
          effect:
            `Installs from a Git repository. The installation runs in a sandbox that can reach ${host}`,
        },
      };
      const { makeChange } = await import("./make_change.ts");
      return await makeChange(change, { session, server, ctx, work, progress }, async () => {
        work.activity = `Installing ${text}`;
        const { executor } = await work.kernel();
        const output = await executor.installPackages(requirement.text, {
          signal: ctx.mcpReq.signal,
          onLine: (line) => {
            work.activity = line;
          },
        });
        return session.answers.of({ text: output, report: { package: text, output } });
      });
    } catch (error) {
      return explained(error);
    }
  });
}
