/**
 * How this machine runs a Python of the user's outside of a sandbox.
 *
 * An environment's `.pth` files can name any folder, as those of editable installations do, and that is
 * often a workspace. Even with `-I`, Python would import `sitecustomize` from there, and each module that a
 * package can do without.
 *
 * @module
 */

/** Does what Python does without `-S`, but imports nothing from folders in workspaces. */
const ENTER = `
import os, site, sys
def is_in_workspace(path):
    path = os.path.realpath(path)
    while not os.path.lexists(os.path.join(path, ".ipybox")):
        path, below = os.path.dirname(path), path
        if path == below:
            return False
    return True
def add_package(folder, name, *_):
    global imports_workspace
    with open(os.path.join(folder, name), encoding="utf-8-sig", errors="surrogateescape") as file:
        lines = [line.strip() for line in file]
    for line in filter(None, lines):
        if line.startswith(("import ", "import\\t")):
            before = set(sys.path)
            try:
                exec(line)
            except Exception:
                pass  # Python says so and goes on, too
            added = [path for path in sys.path if path not in before]
            sys.path[:] = [path for path in sys.path if path in before]
        elif not line.startswith("#"):
            added = [os.path.abspath(os.path.join(folder, line))]
        else:
            continue
        for path in filter(os.path.exists, added):
            if not path.startswith(folder + os.sep) and is_in_workspace(path):
                imports_workspace = True
            elif path not in sys.path:
                sys.path.append(path)
imports_workspace = False
site.addpackage, site.execsitecustomize = add_package, lambda: None
finders = sys.meta_path[:]
site.main()
sys.meta_path[:] = finders
`;

/**
 * The arguments with which Python runs a program, which may import what the environment has. It finds
 * `imports_workspace`: whether this Python would otherwise import from a workspace.
 */
export function pythonArgs(program: string): string[] {
  return ["-I", "-S", "-c", ENTER + program];
}

/** The arguments with which Python makes an environment, before those of `venv`. */
export function venvArgs(): string[] {
  return pythonArgs('import runpy\nrunpy.run_module("venv", run_name="__main__", alter_sys=True)');
}
