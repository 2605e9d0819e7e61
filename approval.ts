/**
 * Asking people: where calls and servers' questions wait for a decision, in this process
 * (`ApprovalChannel`, `ElicitationChannel`), in another one (`ApprovalClient`), or on a web page.
 *
 * @module
 */
export { ApprovalChannel } from "./src/approval/channel.ts";
export type {
  ApprovalChannelOptions,
  ApprovalWaitOptions,
  ApprovalWatcher,
  Approver,
  AttachOptions,
} from "./src/approval/channel.ts";
export { ApprovalClient } from "./src/approval/client.ts";
export type { ApprovalClientOptions } from "./src/approval/client.ts";
export type { ApprovalRequestOptions, ApprovalResponse } from "./src/approval/request.ts";
export { ApprovalPage, type PageAskOptions } from "./src/approval/page/page.ts";
export type { ApprovalPageOptions, PageState } from "./src/approval/page/desk.ts";
export { ElicitationChannel } from "./src/servers/questions.ts";
export type { Answerer, ElicitationChannelOptions } from "./src/servers/questions.ts";
