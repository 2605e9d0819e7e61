"""Explains how to install packages, because pip and uv cannot do so in the sandbox."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any, Optional

#: Packages that are in no package index.
_GENERATED = ("mcptools", "gentools", "mcpparse")
_NO_MODULE = re.compile(r"No module named '([A-Za-z_]\w{0,99})")
#: The arguments of pip's ``install`` in a command, up to its end.
_INSTALL = re.compile(r"(?:^|[\s;&|/])pip[\d.]*\s+install\s([^\n;&|]+)")
_REQUIREMENT = re.compile(r"[A-Za-z][\w.-]{0,99}(?:\[[\w.,-]+\])?(?:[=<>!~]=?[\w.*,=<>!~]+)?")
#: Options whose values could be names of packages.
_WITH_VALUE = (
    *("-r", "--requirement", "-c", "--constraint", "-e", "--editable", "-t", "--target"),
    *("-f", "--find-links", "--prefix", "--root", "--src", "--python", "--python-version"),
    *("--platform", "--implementation", "--abi", "--only-binary", "--no-binary"),
)


def install(installer: Optional[str], sandboxed: bool) -> None:
    """Explain it after a failed command with pip or uv; `installer` is the reader's way to
    install."""
    if sandboxed and "HTTPS_PROXY" not in os.environ:  # no host can be reached, now or later
        os.environ.setdefault("PIP_RETRIES", "0")
        os.environ.setdefault("UV_HTTP_RETRIES", "0")
    if installer is None:
        return
    from ipykernel import zmqshell

    module: Any = zmqshell
    # Private to ipykernel, so it may change.
    run: Optional[Callable[[str], Any]] = getattr(module, "system", None)
    if run is None:
        return

    def system(command: str) -> Any:
        exit_code = run(command)
        packages = _packages_of(command) if exit_code != 0 else []
        if packages:
            sys.stdout.flush()
            print(f"[ipybox] {_how(packages, installer)}", file=sys.stderr)
        return exit_code

    module.system = system


def advice(error: object, installer: Optional[str]) -> Optional[str]:
    """How to install the module that `error` misses."""
    found = _NO_MODULE.match(str(error)) if isinstance(error, ModuleNotFoundError) else None
    if found is None or installer is None or found[1] in _GENERATED:
        return None
    return _how([found[1]], installer)


def _how(packages: Sequence[str], installer: str) -> str:
    it = "it" if len(packages) == 1 else "them"
    quoted = [f'"{package}"' for package in packages]
    if installer == "command":
        return f"To install {it}: ipybox install {shlex.join(packages)}"
    if installer == "session":
        return f"To install {it}: :install {' '.join(packages)}"
    if installer == "tool":
        return f"To install {it}: install_package with package_name {', then '.join(quoted)}"
    return f"To install {it}: executor.installPackages([{', '.join(quoted)}])"


def _packages_of(command: str) -> list[str]:
    """The packages that `command` would install, as far as it names them."""
    found = _INSTALL.search(command)
    if found is None:
        return []
    try:
        arguments = shlex.split(found[1])
    except ValueError:  # an open quotation mark
        return []
    names = [
        argument
        for before, argument in zip(["", *arguments], arguments)
        if before not in _WITH_VALUE and _REQUIREMENT.fullmatch(argument) is not None
    ]
    return list(dict.fromkeys(names))
