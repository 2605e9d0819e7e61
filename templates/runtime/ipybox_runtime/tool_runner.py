"""Calls MCP tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from .arguments import encode
from .content import ResourceLink, ToolResult
from .errors import ToolError, checked, located
from .options import CallOptions, OnProgress, ToolProgress, current_options
from .session import default_session

if TYPE_CHECKING:
    from .catalog import Prompts, Resources


class ToolRunner:
    """Calls the tools of one registered MCP server."""

    def __init__(self, server: str) -> None:
        #: The server's registered name.
        self.server = server

    def run_sync(
        self,
        tool: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> ToolResult:
        """Call a tool and wait for its result.

        ``timeout`` (in seconds) and ``on_progress`` apply to this call; ``call_options`` sets them
        for all calls in a block.
        """
        with located(self.server, tool):
            options = CallOptions(timeout, on_progress).over(current_options())
            body = self._request(tool, arguments, options)
            return self._result(default_session().call("run", body, _reporter(options)))

    async def run(
        self,
        tool: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        timeout: Optional[float] = None,
        on_progress: Optional[OnProgress] = None,
    ) -> ToolResult:
        """Call a tool like ``run_sync``. Calls that are awaited together run concurrently."""
        with located(self.server, tool):
            options = CallOptions(timeout, on_progress).over(current_options())
            body = self._request(tool, arguments, options)
            answer = await default_session().call_async("run", body, _reporter(options))
            return self._result(answer)

    @property
    def resources(self) -> Resources:
        """The server's resources."""
        from .catalog import Resources

        return Resources(self.server)

    @property
    def prompts(self) -> Prompts:
        """The server's prompts."""
        from .catalog import Prompts

        return Prompts(self.server)

    def __repr__(self) -> str:
        return f"ToolRunner({self.server!r})"

    def _request(
        self, tool: str, arguments: Optional[Mapping[str, Any]], options: CallOptions
    ) -> bytes:
        arguments = {} if arguments is None else dict(arguments)
        call = {"server": self.server, "tool": tool, "arguments": arguments}
        return encode({**call, **options.request()})

    def _result(self, answer: dict[str, Any]) -> ToolResult:
        result = ToolResult(checked(answer).get("response", answer)["result"])
        for block in result.content:
            if isinstance(block, ResourceLink):
                block.server = self.server
        if not result.is_error:
            return result
        failure = ToolError(str(result.text) or "The tool failed without a message")
        failure.result = result
        raise failure


def _reporter(options: CallOptions) -> Optional[Callable[[Any], Any]]:
    on_progress = options.on_progress
    if on_progress is None:
        return None
    return lambda report: on_progress(ToolProgress(report))
