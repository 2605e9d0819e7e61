import type { z } from "zod";
import { abilitiesOf } from "./client_abilities.ts";
import { explained } from "./failure.ts";
import { Preparation, RequestProgress } from "./request_progress.ts";
import type {
  CallToolResult,
  InputRequiredResult,
  RegisteredTool,
  SdkMcpServer,
  ServerContext,
} from "./sdk.ts";
import type { Session } from "./session.ts";
import type { DeclareInput } from "./tool_input.ts";

/** The server and session that a tool is added to. */
export interface ToolHost {
  readonly server: SdkMcpServer;
  readonly session: Session;
  readonly declare: DeclareInput;
}

/** A call of a tool by the client. */
export interface ToolRequest extends Omit<ToolHost, "declare"> {
  readonly ctx: ServerContext;
  /** The tool's progress, as the client sees it. */
  readonly work: Preparation;
  readonly progress: RequestProgress;
}

const HINTS = ["readOnly", "destructive", "idempotent", "openWorld"] as const;
type Hint = typeof HINTS[number];

/** A tool, as clients see it. */
interface Tool<Arguments> {
  readonly title: string;
  readonly description: string;
  /** Its arguments. Schemas are made when a client asks for them. */
  readonly input: () => z.ZodType<Arguments>;
  /** The protocol's hints that apply to it. */
  readonly hints: readonly Hint[];
  /** Its first step, in one line. */
  readonly activity?: string;
  /** Whether it works before the kernel has started. */
  readonly withoutKernel?: boolean;
}

/** Adds a tool that reports its progress to the client, and its errors to the model. */
export function addTool<Arguments>(
  { server, session, declare }: ToolHost,
  name: string,
  { input, activity, hints, withoutKernel = false, ...shown }: Tool<Arguments>,
  run: (args: Arguments, request: ToolRequest) => Promise<CallToolResult | InputRequiredResult>,
): RegisteredTool {
  return server.registerTool(name, {
    ...shown,
    // All of them, because clients assume different defaults.
    annotations: Object.fromEntries(HINTS.map((name) => [`${name}Hint`, hints.includes(name)])),
    inputSchema: declare(input),
  }, async (args, ctx) => {
    try {
      const work = new Preparation(session, activity);
      using progress = RequestProgress.of(work, ctx, session.log);
      const request = { server, session, ctx, work, progress };
      if (!withoutKernel && session.questions !== undefined) {
        const hasForms = abilitiesOf(server, ctx, session).form;
        const waiting = { ctx, rounds: session.rounds, hasForms, progress };
        const asked = await session.questions.during(work.kernel(), waiting);
        if (asked !== undefined) return asked;
      }
      return await run(args, request);
    } catch (error) {
      return explained(error);
    }
  });
}
