import { hostEnv } from "../process/host_env.ts";

/** What an installer may know: where it finds its configuration, the index and the network. */
export function installerEnvironment(): Record<string, string> {
  const wanted =
    /^(PATH|HOME|USER|LANG|LC_.*|TMPDIR|XDG_.*|PIP_.*|UV_.*|SSL_CERT_.*|(HTTPS?|ALL|NO)_PROXY)$/i;
  const all = hostEnv("PATH") === undefined ? {} : Deno.env.toObject();
  return Object.fromEntries(Object.entries(all).filter(([name]) => wanted.test(name)));
}
