import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import {
  checkSandbox,
  explainNamespaceFailure,
  missingTools,
  type NamespaceSettings,
  requireSandboxPrerequisites,
} from "./prerequisites.ts";
import { installCommand, PACKAGE_MANAGERS } from "./system_packages.ts";

Deno.test("checkSandbox() finds a machine ready that `deno task setup` made ready", async () => {
  const found = await checkSandbox();

  assertEquals(found.filter(({ state }) => state === "missing"), []);
  for (const { name, version } of found.filter(({ name }) => /^(bubb|socat|rip)/.test(name))) {
    assert(version !== null, `${name} has no version`);
  }
  await requireSandboxPrerequisites();
});

Deno.test("missingTools() takes what is missing and no more", () => {
  const item = { version: null, detail: "", fix: null };
  assertEquals(
    missingTools([
      { ...item, name: "bubblewrap", state: "ok" },
      { ...item, name: "ripgrep", state: "missing" },
      { ...item, name: "user namespaces", state: "missing" },
    ]),
    ["rg"],
  );
});

Deno.test("installCommand() is what a person types on each system", () => {
  const command = (root: boolean) =>
    PACKAGE_MANAGERS.map((manager) =>
      installCommand(["bwrap", "rg", "python3"], { manager, root })
    );
  assertEquals(command(false), [
    "sudo apt-get update && " +
    "sudo apt-get install -y --no-install-recommends bubblewrap ripgrep python3 python3-venv",
    "sudo dnf install bubblewrap ripgrep python3",
    "sudo pacman -S --needed bubblewrap ripgrep python",
    "sudo apk add bubblewrap ripgrep python3",
    "sudo zypper install bubblewrap ripgrep python3",
    "brew install bubblewrap ripgrep python@3.13",
  ]);
  assertEquals(command(true)[1], "dnf install bubblewrap ripgrep python3");
  assertStringIncludes(
    installCommand(["socat"], { manager: undefined, root: true }),
    "Install socat with this system's package manager",
  );
});

Deno.test("explainNamespaceFailure() names the obstacle and the fix", () => {
  const none: NamespaceSettings = {
    apparmorRestricts: undefined,
    unprivilegedClone: undefined,
    maximum: "15000",
  };
  const cases: [string, Partial<NamespaceSettings>, RegExp, RegExp][] = [
    [
      "bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n",
      {},
      /^This container hides parts of \/proc/,
      /systempaths=unconfined.*--no-sandbox/,
    ],
    [
      "bwrap: setting up uid map: Permission denied\n",
      { apparmorRestricts: "1" },
      /^AppArmor restricts/,
      /apparmor_restrict_unprivileged_userns=0$/,
    ],
    [
      "bwrap: No permissions to create new namespace\n",
      { unprivilegedClone: "0" },
      /^Only root may/,
      /unprivileged_userns_clone=1$/,
    ],
    [
      "bwrap: Creating new namespace failed: No space left on device\n",
      { maximum: "0" },
      /^The kernel allows no/,
      /max_user_namespaces=15000$/,
    ],
    [
      "bwrap: Creating new namespace failed: Operation not permitted\n",
      {},
      /^User namespaces do not work \(bwrap: Creating/,
      /seccomp=unconfined/,
    ],
  ];
  for (const [stderr, settings, detail, fix] of cases) {
    const failure = explainNamespaceFailure(stderr, { ...none, ...settings });
    assert(detail.test(failure.detail), failure.detail);
    assert(fix.test(failure.fix), failure.fix);
  }
});
