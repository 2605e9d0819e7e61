/**
 * Arguments for running the user's Python on this machine, outside of a sandbox.
 *
 * An environment's `.pth` files can name any folder, and those of editable installations often name a
 * workspace. Even with `-I`, Python would import `sitecustomize` from there, and each module that is
 * optional for a package.
 *
 * @module
 */

/**
 * Refuses to open files in a workspace, or behind a link there: packages and `.pth` files may lead in any
 * way to modules that executed code can write. No code of a workspace runs without being opened first.
 */
const REFUSE = `
def refuse(event, args):
    if event in ("open", "import", "ctypes.dlopen"):
        path = args[1] if event == "import" else args[0]
        path = os.fsdecode(path) if isinstance(path, (str, bytes)) else ""
        if event == "ctypes.dlopen" and "/" not in path:
            return # not looked for in the current folder
        if path and is_in_workspace(path):
            raise PermissionError(13, "it is in a workspace, whose code could change it", path)
sys.addaudithook(refuse)
`;

/** Does the work of Python's `site`, but imports nothing from folders in workspaces. */
const enter = (guard: string) => `
import os, site, sys
home = os.path.realpath(os.path.expanduser("~"))
workspaces = {}
def is_workspace(folder):
    if (home + "/").startswith(folder.rstrip("/") + "/"):
        return False # no sandbox is around the home directory
    if folder not in workspaces:
        try:
            workspaces[folder] = bool(os.lstat(os.path.join(folder, ".ipybox")))
        except PermissionError:
            workspaces[folder] = True # code can close its folder for a moment
        except OSError:
            workspaces[folder] = False
    return workspaces[folder]
def is_in_workspace(path):
    if not path.startswith("/"):
        path = os.path.join(os.getcwd(), path)
    at, links, names = "/", 0, path.split("/")
    while names:
        name = names.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            at = os.path.dirname(at)
            continue
        if is_workspace(at):
            return True
        path = os.path.join(at, name)
        try:
            target = os.readlink(path)
        except OSError:
            at = path
            continue
        links += 1
        if links > 40:
            return True
        names[:0] = target.split("/")
        at = "/" if target.startswith("/") else at
    return is_workspace(at)
${guard}
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
 * The arguments with which the host runs a program in the user's Python. The program may import the packages
 * of the environment, and can read `imports_workspace`: whether it would otherwise import from a workspace.
 */
export function pythonArgs(program: string): string[] {
  return ["-I", "-S", "-c", enter(REFUSE) + program];
}

/** The same for a Python that runs in a sandbox, which may be in the workspace itself. */
export function confinedPythonArgs(program: string): string[] {
  return ["-I", "-S", "-c", enter("") + program];
}

/** The arguments with which the host runs a Python module, such as `venv`; the module's own come after. */
export function moduleArgs(module: string): string[] {
  return pythonArgs(
    `import runpy\nrunpy.run_module("${module}", run_name="__main__", alter_sys=True)`,
  );
}
