/**
 * The server half of the MCP TypeScript SDK, imported only here.
 *
 * Its 2.x line serves both protocol eras from one code base and has real types in Deno; the 1.x line,
 * `@modelcontextprotocol/sdk`, is the legacy peer in the tests.
 */
export {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  completable,
  createMcpHandler,
  createRequestStateCodec,
  inputRequired,
  isInitializeRequest,
  isLegacyRequest,
  McpServer as SdkMcpServer,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  ResourceTemplate,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
export type {
  CallToolResult,
  ContentBlock,
  ElicitRequestFormParams as ElicitForm,
  GetPromptResult,
  InputRequests,
  InputRequiredResult,
  ListResourcesResult,
  McpHttpHandler,
  McpServerFactory,
  ReadResourceResult,
  RegisteredTool,
  RequestStateCodec,
  ServerContext,
  ServerOptions,
  StandardSchemaWithJSON,
  Transport,
  Variables,
} from "@modelcontextprotocol/server";
export { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
