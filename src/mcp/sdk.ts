/**
 * The only module that imports the MCP SDK's client, which is large.
 *
 * @module
 */
export {
  checkResourceAllowed,
  Client,
  ClientCredentialsProvider,
  computeScopeUnion,
  createPrivateKeyJwtAuth,
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  exchangeAuthorization,
  extractWWWAuthenticateParams,
  fetchToken,
  isStrictScopeSuperset,
  IssuerMismatchError,
  OAuthError,
  ProtocolError,
  ProtocolErrorCode,
  refreshAuthorization,
  registerClient,
  RegistrationRejectedError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  startAuthorization,
  StreamableHTTPClientTransport,
  validateAuthorizationResponseIssuer,
} from "@modelcontextprotocol/client";
export type {
  AuthorizationServerMetadata,
  ClientCapabilities,
  ClientOptions,
  CreateMessageResult,
  FetchLike,
  Implementation,
  JSONRPCMessage,
  OAuthClientProvider,
  OAuthProtectedResourceMetadata,
  OAuthTokens,
  RequestOptions,
  Transport,
  VersionNegotiationOptions,
} from "@modelcontextprotocol/client";
