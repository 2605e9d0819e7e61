"""Times the reference's generator on lists of tools.

    mcpygen_baseline.py FILE...

Each FILE holds a server's tools. What is timed is what `mcpygen.apigen.generate_mcp_sources` does for
a tool, from the definition in memory to the text of its module. Prints one JSON line: the milliseconds
for each tool, or null where generation fails.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from mcpygen.apigen import (
    generate_function_definition,
    generate_input_model_code,
    generate_output_model_code,
    strip_imports,
)


def generate(tool: dict[str, Any]) -> str:
    """The module of a tool."""
    output_schema = tool.get("outputSchema")
    parts = [generate_input_model_code(tool["inputSchema"])]
    if output_schema:
        parts.append(strip_imports(generate_output_model_code(output_schema)))
    parts.append(
        generate_function_definition(
            tool["name"], tool.get("description") or "", structured_output=output_schema is not None
        )
    )
    return "\n\n".join(parts)


def timed(tool: dict[str, Any]) -> float | None:
    """The milliseconds that a tool takes."""
    start = time.perf_counter()
    try:
        generate(tool)
    except Exception:  # noqa: BLE001 -- whatever it is, there is no module
        return None
    return (time.perf_counter() - start) * 1000


def main() -> None:
    """Reads the arguments, times, prints."""
    tools: list[dict[str, Any]] = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            tools += json.load(file)["tools"]
    for tool in tools[:10]:
        timed(tool)  # what is loaded at first use does not count
    print(json.dumps([timed(tool) for tool in tools]))


if __name__ == "__main__":
    main()
