"""Sets up the IPython kernel that imports it, once, before any user code runs."""

import json
import os
import tempfile
from typing import TYPE_CHECKING, Any

from . import (
    cell_source,
    child_output,
    code_input,
    event_loop,
    exception_groups,
    hints,
    installers,
    interrupts,
    libraries,
    meant_code,
    messages,
    plain_output,
    streams,
    working_dir,
)

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def start(config_json: str) -> None:
    """Set up the kernel from `config_json`, whose keys are those of `bootstrap.ts`."""
    shell = _shell()
    config = json.loads(config_json)
    interrupts.install(shell)
    plain_output.install(shell)
    exception_groups.install(shell)
    installer, sandboxed = config.get("installer"), config["sandboxed"]
    hints.install(shell, installer, sandboxed)
    installers.install(installer, sandboxed)
    streams.install()
    child_output.install(shell)
    event_loop.install(shell)
    libraries.install(shell)
    meant_code.install(shell)
    cell_source.install(shell)
    messages.install(shell.kernel.session)
    code_input.install(shell.kernel)
    directory = config.get("workingDir")
    if directory is not None:
        os.chdir(directory)
    if config["restoreWorkingDir"]:
        working_dir.install(shell, os.getcwd())
    _guard_commands(shell, config["shell"])
    _take_token(config)


def begin(config_json: str) -> None:
    """Empty the kernel's folder, to which code of an earlier kernel could write."""
    shell, folder = _shell(), os.environ["IPYBOX_KERNEL_FOLDER"]
    if os.path.lexists(folder):
        # Only moved: the gateway removes it, which may be slow.
        os.rename(folder, os.path.join(tempfile.mkdtemp(dir=os.path.dirname(folder)), "old"))
    os.makedirs(os.path.join(folder, "tmp"), mode=0o700)
    os.makedirs(os.path.join(shell.profile_dir.location, "db"))
    shell.profile_dir.check_dirs()
    _take_token(json.loads(config_json))


def _take_token(config: dict[str, Any]) -> None:
    """Set the token for the tool server."""
    token = config.get("toolToken")
    if token is not None:
        os.environ["IPYBOX_TOOL_TOKEN"] = token


def _guard_commands(shell: "InteractiveShell", guard: str) -> None:
    if guard == "none":
        return
    from . import shell_approval

    permit: shell_approval.Permit = shell_approval.unguarded
    if guard == "escape":
        from . import process_guard

        permit = process_guard.install()
    shell_approval.install(shell, permit)


def _shell() -> Any:  # ipykernel's subclass has no types
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise RuntimeError("ipybox_runtime.kernel can only be used inside an IPython kernel")
    return shell
