@tool(Params)
def run(params: Params) -> ToolText:
    __DOCSTRING__
    return __CALL__.text


@tool(Params)
async def run_async(params: Params) -> ToolText:
    """Like `run`, without blocking the event loop."""
    result = await __CALL_ASYNC__
    return result.text
