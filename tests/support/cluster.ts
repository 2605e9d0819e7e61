/**
 * The Kubernetes cluster that tests run kernels in, where there is one.
 *
 * @module
 */

/** The context of `kubectl` that leads to it. There is no default: it might be a cluster that is in use. */
export const context: string = Deno.env.get("IPYBOX_TEST_CLUSTER") ?? "";

const MANIFESTS = new URL("../../packaging/kubernetes/", import.meta.url).pathname;

/** Why no kernel can run in a pod here; `undefined` where one can. */
export async function whyNoCluster(): Promise<string | undefined> {
  if (context === "") {
    return "IPYBOX_TEST_CLUSTER does not name a context of kubectl whose cluster is for tests";
  }
  try {
    const { success, text } = await kubectl(["get", "nodes"]);
    return success ? undefined : `no cluster answers: ${text}`;
  } catch (error) {
    return `kubectl cannot be run: ${error}`;
  }
}

/** Runs `kubectl`. */
export async function kubectl(
  args: readonly string[],
  input = "",
): Promise<{ readonly success: boolean; readonly text: string }> {
  const child = new Deno.Command("kubectl", {
    args: ["--context", context, ...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const output = child.output();
  await new Blob([input]).stream().pipeTo(child.stdin);
  const { success, stdout, stderr } = await output;
  const decoder = new TextDecoder();
  return { success, text: decoder.decode(stdout) + decoder.decode(stderr) };
}

/** A namespace as `packaging/kubernetes` makes one, for nobody else. Disposing removes it. */
export class TestNamespace implements AsyncDisposable {
  private constructor(readonly name: string) {}

  /** @param overlay Which of the manifests. @param edit Changes them. */
  static async create(
    overlay: "base" | "pool" = "base",
    edit: (manifests: string) => string = (manifests) => manifests,
  ): Promise<TestNamespace> {
    const name = `ipybox-${crypto.randomUUID().slice(0, 8)}`;
    const { text } = await kubectl(["kustomize", MANIFESTS + overlay]);
    const manifests = text.replaceAll("namespace: ipybox\n", `namespace: ${name}\n`)
      .replace(/(kind: Namespace[\s\S]*?\n {2}name: )ipybox\n/, `$1${name}\n`);
    const applied = await kubectl(["apply", "--filename", "-"], edit(manifests));
    if (!applied.success) throw new Error(applied.text);
    return new TestNamespace(name);
  }

  /** Runs `kubectl` in it. */
  async kubectl(args: readonly string[], input?: string): Promise<string> {
    const { success, text } = await kubectl(["--namespace", this.name, ...args], input);
    if (!success) throw new Error(text);
    return text;
  }

  /** The names of what it has of a kind, but for what is about to go. */
  async names(kind: string): Promise<string[]> {
    const lines = await this.kubectl([
      ...["get", kind, "--output"],
      'jsonpath={range .items[*]}{.metadata.name} {.metadata.deletionTimestamp}{"\\n"}{end}',
    ]);
    return lines.split("\n").map((line) => line.split(" ")).flatMap(([name = "", gone]) =>
      name === "" || name === "No" || gone !== "" ? [] : [name]
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await kubectl(["delete", "namespace", this.name, "--wait=false"]);
  }
}
