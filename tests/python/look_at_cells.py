"""Looks at code as a kernel does before it runs.

    look_at_cells.py RUNTIME

RUNTIME is the folder of `ipybox_runtime`. Reads one JSON string of code a line and answers in one line.
"""

from __future__ import annotations

import json
import sys

from IPython.core.interactiveshell import InteractiveShell


def main() -> None:
    """Answers until there is no more code."""
    sys.path.insert(0, sys.argv[1])
    InteractiveShell.instance()
    from ipybox_runtime.kernel import check

    for line in sys.stdin:
        check._written.clear()  # each is of another session
        check._declared.clear()
        check._mentioned.clear()
        print(repr(check.look(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
