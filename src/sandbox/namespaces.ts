/**
 * Linux user namespaces, which the sandbox is made of: trying them, and saying why they fail.
 *
 * @module
 */
import { mayRead } from "../process/permission.ts";

/**
 * Arguments of `bwrap` that ask for the namespaces and mounts that `srt` asks for, in short. What
 * runs inside is `bwrap` again: it is known to be on the PATH.
 */
export const NAMESPACE_PROBE: readonly string[] =
  "--unshare-user --unshare-net --unshare-pid --ro-bind / / --dev /dev --proc /proc bwrap --version"
    .split(" ");

/** Kernel settings that matter to user namespaces; `undefined` where the kernel has no such. */
export interface NamespaceSettings {
  /** `kernel.apparmor_restrict_unprivileged_userns`. */
  readonly apparmorRestricts: string | undefined;
  /** `kernel.unprivileged_userns_clone`. */
  readonly unprivilegedClone: string | undefined;
  /** `user.max_user_namespaces`. */
  readonly maximum: string | undefined;
}

/** Why user namespaces do not work, and what helps. */
export interface NamespaceFailure {
  /** What is in the way. */
  readonly detail: string;
  /** How to get it out of the way. */
  readonly fix: string;
}

const CONTAINER = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined " +
  "--security-opt systempaths=unconfined, or take the container as the sandbox (--no-sandbox)";

/** Says why bubblewrap could not make its namespaces. */
export function explainNamespaceFailure(
  stderr: string,
  settings: NamespaceSettings,
): NamespaceFailure {
  const said = stderr.trim().split("\n").at(-1) ?? "";
  if (settings.unprivilegedClone === "0") {
    return {
      detail: `Only root may make user namespaces here (${said})`,
      fix: "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    };
  }
  if (settings.maximum === "0") {
    return {
      detail: `The kernel allows no user namespaces (${said})`,
      fix: "sudo sysctl -w user.max_user_namespaces=15000",
    };
  }
  if (/mount proc/i.test(said)) {
    return {
      detail: `This container hides parts of /proc, so no sandbox can be nested in it (${said})`,
      fix: `Run the container with ${CONTAINER}`,
    };
  }
  if (settings.apparmorRestricts === "1") {
    return {
      detail: `AppArmor restricts user namespaces, as on Ubuntu 24.04 and newer (${said})`,
      fix: "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    };
  }
  return {
    detail: `User namespaces do not work (${said})`,
    fix: `In a container, run it with ${CONTAINER}; elsewhere let the administrator allow them`,
  };
}

/** Reads the kernel's settings, as far as Deno's permissions let one look without a prompt. */
export async function readNamespaceSettings(): Promise<NamespaceSettings> {
  return {
    apparmorRestricts: await setting("kernel/apparmor_restrict_unprivileged_userns"),
    unprivilegedClone: await setting("kernel/unprivileged_userns_clone"),
    maximum: await setting("user/max_user_namespaces"),
  };
}

async function setting(name: string): Promise<string | undefined> {
  const path = `/proc/sys/${name}`;
  if (!mayRead(path)) return undefined;
  try {
    return (await Deno.readTextFile(path)).trim();
  } catch {
    return undefined; // this kernel has no such setting
  }
}
