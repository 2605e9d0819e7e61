__DOCSTRING__

from __future__ import annotations

__IMPORTS__

from . import CLIENT

__DEFINITIONS__


@tool(Params)
def run(params: Params) -> __RETURNS__:
    __RUN_DOCSTRING__
    return __CALL__


run_async = run.awaited
