import { z } from "zod";
import { parseRequirement } from "../../python/requirement.ts";
import { explained } from "../failure.ts";
import { RequestProgress } from "../request_progress.ts";
import type { SdkMcpServer } from "../sdk.ts";
import type { Session } from "../session.ts";
import type { DeclareInput } from "../session_argument.ts";
import { foreignBlock } from "../foreign_block.ts";
import { makeChange } from "./make_change.ts";

const FROM_GIT = ', or a Git repository, such as "git+https://github.com/psf/requests@v2.32.3", ' +
  "for which the user is asked";

const describe = (others: string): string =>
  `
Installs a Python package for this workspace. It can be imported at once, without reset, and stays \
installed.

Takes a name with optional extras and versions, such as "pandas", "httpx[http2]" or \
"numpy>=2,<3"${others}. The installer runs in a sandbox of its own: it reaches only the user's package index, and writes only \
to the packages of this workspace. If it fails, read its last lines: they say which version or build \
tool is missing.
`.trim();

/** Adds `install_package`. */
export function registerInstall(
  server: SdkMcpServer,
  session: Session,
  declare: DeclareInput,
): void {
  server.registerTool("install_package", {
    title: "Install a Python package",
    description: describe(session.changes === "fixed" ? "" : FROM_GIT),
    inputSchema: declare(z.object({
      package_name: z.string().describe('The package, such as "pandas" or "numpy>=2,<3"'),
    })),
    outputSchema: z.object({
      package: z.string(),
      output: z.string().describe("What the installer said"),
    }),
    annotations: {
      readOnlyHint: false,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: true,
    },
  }, async ({ package_name: name }, ctx) => {
    try {
      const requirement = parseRequirement(name);
      const { host, text } = requirement;
      const change = {
        tool: "install_package",
        parameters: { package_name: text },
        question: host === undefined ? undefined : {
          description:
            `Install this Python package from a Git repository? Its installation, in a ` +
            `sandbox, can reach ${host}:\n\n${foreignBlock([text])}`,
          what: "Installing from a Git repository",
          byHand: "Ask the user, or install a package of the package index instead",
          effect:
            `Installs from a Git repository. The installation, in a sandbox, can reach ${host}`,
        },
      };
      return await makeChange(change, session, server, ctx, async () => {
        const { executor } = await session.parts;
        const work = { activity: `Installing ${text}` };
        using _progress = RequestProgress.of(work, ctx, session.log);
        const output = await executor.installPackages(requirement.text, {
          signal: ctx.mcpReq.signal,
          onLine: (line) => {
            work.activity = line;
          },
        });
        return {
          content: [{ type: "text" as const, text: output }],
          structuredContent: { package: text, output },
        };
      });
    } catch (error) {
      return explained(error);
    }
  });
}
