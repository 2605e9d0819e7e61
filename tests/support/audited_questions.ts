import { readAuditLog } from "../../src/approval/audit/reader.ts";
import { inOwnProcess } from "./own_process.ts";

/**
 * Reads what the audit log says of questions to people.
 *
 * @param workspace The workspace.
 * @param state Another state folder than that of the tests.
 * @returns For each question what asked, its kind, who answered and how, such as
 * `raw.elicitation/create elicitation page accept`.
 */
export async function auditedQuestions(workspace: string, state?: string): Promise<string[]> {
  const rows: string[] = [];
  const lines = state === undefined
    ? await Array.fromAsync(readAuditLog(workspace))
    : await linesIn(workspace, state);
  for (const { kind, server, tool, by, status } of lines) {
    if (kind !== "elicitation" && kind !== "input") continue;
    rows.push(`${server}.${tool} ${kind} ${by} ${status}`);
  }
  return rows;
}

async function linesIn(workspace: string, state: string): Promise<Record<string, unknown>[]> {
  const code = `
    const { readAuditLog } = await load("src/approval/audit/reader.ts");
    return await Array.fromAsync(readAuditLog(${JSON.stringify(workspace)}));`;
  return Object(await inOwnProcess(code, { XDG_STATE_HOME: state }));
}
