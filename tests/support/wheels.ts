import { runPython } from "./run_python.ts";

/** A package of a few lines. */
interface Wheel {
  readonly name: string;
  readonly version?: string;
  /** What it depends on. */
  readonly requires?: readonly string[];
  /** Its files by path, besides those about it. */
  readonly files?: Readonly<Record<string, string>>;
  /** Its programs: name → `module:function`. */
  readonly programs?: Readonly<Record<string, string>>;
}

const MAKE = `
import json, sys, zipfile
folder, wheels = sys.argv[1], json.loads(sys.argv[2])
for wheel in wheels:
    name, version = wheel["name"].replace("-", "_"), wheel.get("version", "1.0")
    info = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {text}\\n" for text in wheel.get("requires", ()))
    programs = "".join(f"{name} = {where}\\n" for name, where in wheel.get("programs", {}).items())
    files = wheel.get("files", {}) | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: {wheel['name']}\\nVersion: {version}\\n{requires}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        f"{info}/entry_points.txt": f"[console_scripts]\\n{programs}",
    }
    record = f"{info}/RECORD"
    with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(record, "".join(f"{path},,\\n" for path in [*files, record]))
`;

/** Makes wheels in a folder, without any build tool. */
export async function makeWheels(folder: string, wheels: readonly Wheel[]): Promise<void> {
  const { success, stderr } = await runPython(["-c", MAKE, folder, JSON.stringify(wheels)]);
  if (!success) throw new Error(`Cannot make wheels: ${stderr}`);
}
