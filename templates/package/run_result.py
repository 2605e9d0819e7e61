@tool(Params)
def run(params: Params) -> Result:
    __DOCSTRING__
    result = __CALL__
    return parse_result(Result, result)


@tool(Params)
async def run_async(params: Params) -> Result:
    """Like `run`, without blocking the event loop."""
    result = await __CALL_ASYNC__
    return parse_result(Result, result)
