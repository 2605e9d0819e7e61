/**
 * The kernel without tools: a sandboxed gateway, its client, and the Python that they need.
 *
 * @module
 */
export { KernelGateway } from "./src/kernel/gateway.ts";
export type { KernelGatewayOptions } from "./src/place/place.ts";
export type { KernelDoorTarget } from "./src/place/launch.ts";
export { KernelClient } from "./src/kernel/client.ts";
export type { KernelClientOptions } from "./src/kernel/host.ts";
export type { Execution } from "./src/kernel/execution.ts";
export type { ExecuteOptions as KernelExecuteOptions } from "./src/kernel/execution.ts";
export type { OutputChunk } from "./src/kernel/spill_file.ts";
export type { ShellGuard } from "./src/kernel/bootstrap.ts";
export type { GatewayAddress } from "./src/kernel/gateway_connection.ts";
export type { ByteStream } from "./src/base/streams.ts";
export type {
  CommandPlacement,
  ContainerPlacement,
  KubernetesPlacement,
  Placement,
  SshPlacement,
} from "./src/place/placement.ts";
export type { EffectiveLimits } from "./src/sandbox/limits.ts";
export { buildPythonEnvironment, findPython } from "./src/python/environment.ts";
export type {
  BuildOptions,
  EnvironmentRecipe,
  FindPythonOptions,
  PythonEnvironment,
} from "./src/python/environment.ts";
