/**
 * The one import of the MCP SDK's client half, so that the protocol stays behind this module.
 *
 * @module
 */
export {
  Client,
  ProtocolError,
  ProtocolErrorCode,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
export type {
  ClientCapabilities,
  ClientOptions,
  CreateMessageResult,
  FetchLike,
  Implementation,
  JSONRPCMessage,
  RequestOptions,
  Tool,
  Transport,
  VersionNegotiationOptions,
} from "@modelcontextprotocol/client";
export { CfWorkerJsonSchemaValidator } from "@modelcontextprotocol/client/validators/cf-worker";
