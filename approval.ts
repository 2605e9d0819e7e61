/**
 * Asking people: calls and servers' questions wait for a decision in this process
 * (`ApprovalChannel`, `ElicitationChannel`), in another one (`ApprovalClient`), or on a web page.
 *
 * @module
 */
export { ApprovalChannel } from "./src/approval/channel.ts";
export type { ApprovalWaitOptions, Approver } from "./src/approval/channel.ts";
export { Question, QuestionQueue } from "./src/approval/question_queue.ts";
export type { AttachOptions, QuestionQueueOptions } from "./src/approval/question_queue.ts";
export { ApprovalClient } from "./src/approval/client.ts";
export type { ApprovalClientOptions } from "./src/approval/client.ts";
export type { ApprovalRequestOptions, ApprovalResponse } from "./src/approval/request.ts";
export { ApprovalPage, type PageAskOptions } from "./src/approval/page/page.ts";
export type { PageState } from "./src/approval/page/backend.ts";
export { ElicitationChannel } from "./src/approval/questions.ts";
export type {
  Answerer,
  ElicitationRequestOptions,
  EndedQuestion,
  QuestionEnd,
} from "./src/approval/questions.ts";
