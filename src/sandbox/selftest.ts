import { z } from "zod";

/** One line of text, which people see. */
const word = z.string().max(4096).regex(/^\P{Cc}*$/u);

/** The launcher's report on its place, with the property names of the link protocol. */
export const selfTestSchema = z.object({
  /** The launcher's process id inside the sandbox. */
  pid: z.number(),
  /** Its user id inside the sandbox. */
  uid: z.number(),
  /** The system's name in Python. */
  platform: word,
  /** The version of Landlock; below 1 if it is missing; Linux only. */
  landlock: z.number().optional(),
  /** Accesses that the sandbox must prevent and does not; without a sandbox, most of them. */
  failures: z.array(word).max(10_000),
});

/** The launcher's report. */
export type SelfTestReport = z.infer<typeof selfTestSchema>;

/** Whether Linux can keep processes of one user apart; the first version of Landlock cannot be used. */
export function hasLandlock({ landlock = 0 }: Pick<SelfTestReport, "landlock">): boolean {
  return landlock >= 2;
}
