/**
 * The audit log: writing to it, reading it, and checking that nobody has changed it.
 *
 * @module
 */
export { AuditLog } from "./src/approval/audit/log.ts";
export type { AuditLogOptions } from "./src/approval/audit/log.ts";
export type { AuditEntry, AuditOutcome } from "./src/approval/audit/entry.ts";
export { readAuditLog, verifyAuditLog } from "./src/approval/audit/reader.ts";
export type { AuditVerdict } from "./src/approval/audit/reader.ts";
