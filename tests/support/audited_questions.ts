import { readAuditLog } from "../../src/approval/audit/reader.ts";

/**
 * Reads what the audit log says of questions to people.
 *
 * @param workspace The workspace.
 * @returns For each question what asked, its kind, who answered and how, such as
 * `raw.elicitation/create elicitation page accept`.
 */
export async function auditedQuestions(workspace: string): Promise<string[]> {
  const rows: string[] = [];
  for await (const { kind, server, tool, by, status } of readAuditLog(workspace)) {
    if (kind !== "elicitation" && kind !== "input") continue;
    rows.push(`${server}.${tool} ${kind} ${by} ${status}`);
  }
  return rows;
}
