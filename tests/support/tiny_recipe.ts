import type { EnvironmentRecipe } from "../../src/python/managed.ts";

// A wheel is a zip with a few files of metadata, so one can be made without any build tool.
const MAKE_WHEEL = `
import hashlib, sys, zipfile
path = sys.argv[1] + "/ipybox_tiny-1.0-py3-none-any.whl"
info = "ipybox_tiny-1.0.dist-info/"
with zipfile.ZipFile(path, "w") as wheel:
    wheel.writestr("ipybox_tiny.py", "ANSWER = 42\\n")
    wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: ipybox-tiny\\nVersion: 1.0\\n")
    wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr(info + "RECORD", "")
print(hashlib.sha256(open(path, "rb").read()).hexdigest())
`;

/**
 * Makes a package of one line, so that environments can be built in seconds and without a network.
 *
 * @param directory Where its wheel is put.
 * @returns The recipe of an environment that has only this package.
 */
export async function tinyRecipe(directory: string): Promise<EnvironmentRecipe> {
  const args = ["-I", "-c", MAKE_WHEEL, directory];
  const { stdout, success } = await new Deno.Command("python3", { args }).output();
  if (!success) throw new Error("Cannot make a wheel with python3");
  const hash = new TextDecoder().decode(stdout).trim();
  return {
    requirements: `--no-index\n--find-links ${directory}\nipybox-tiny==1.0 --hash=sha256:${hash}\n`,
    modules: { ipybox_tiny: "ipybox-tiny" },
  };
}

/** The recipe of an environment whose only package has to come from a package index. */
export function remoteRecipe(index: string): EnvironmentRecipe {
  const hash = "0".repeat(64);
  return {
    requirements: `--index-url ${index}\nipybox-tiny==1.0 --hash=sha256:${hash}\n`,
    modules: { ipybox_tiny: "ipybox-tiny" },
  };
}
