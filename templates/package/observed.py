@tool(Params)
def run_json(params: Params) -> __TYPE__:
    __DOCSTRING__
    result: __LOCAL_TYPE__ = __CALL__
    return result


run_json_async = run_json.awaited
