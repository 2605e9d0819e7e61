"""The exceptions of tool calls."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generator, Mapping, Optional

if TYPE_CHECKING:
    from .content import ToolContent, ToolResult


class ToolCallError(Exception):
    """A tool call failed. The subclass says why."""

    #: Its identifier in the tool server's answers.
    type = "tool_call_error"
    #: The registered server, if the call got that far.
    server: Optional[str] = None
    #: The tool's name as the server knows it.
    tool: Optional[str] = None


class ToolError(ToolCallError):
    """The tool ran and reported a failure. The result is attached."""

    type = "tool_error"
    #: Everything that the server sent.
    result: Optional[ToolResult] = None

    @property
    def content(self) -> tuple[ToolContent, ...]:
        """The content blocks that the server sent."""
        return () if self.result is None else self.result.content

    @property
    def structured(self) -> Any:
        """The structured content that the server sent, or ``None``."""
        return None if self.result is None else self.result.structured


class ToolProtocolError(ToolCallError):
    """The server answered with a JSON-RPC error, or violated the protocol."""

    type = "protocol_error"
    #: The JSON-RPC error code.
    code: Optional[int] = None
    #: The JSON-RPC error data.
    data: Any = None


class InvalidArgumentsError(ToolProtocolError):
    """The arguments cannot be sent, or the server refused them."""

    type = "invalid_arguments"


class ToolOutputError(ToolCallError):
    """The tool's result does not match its output schema. The result is attached."""

    type = "invalid_output"
    #: Everything that the server sent.
    result: Optional[ToolResult] = None


class ApprovalRejectedError(ToolCallError):
    """The call was refused: by a person, by a policy, or because nobody could be asked."""

    type = "approval_rejected"
    #: The reason given for the refusal.
    reason: Optional[str] = None


class ApprovalUnavailableError(ApprovalRejectedError):
    """The call was refused because nobody can approve it, or because it is too large to show."""

    type = "approval_unavailable"


class ApprovalTimeoutError(ToolCallError):
    """Nobody decided on the call in time."""

    type = "approval_timeout"
    #: How long the call waited.
    reason: Optional[str] = None


class ToolTimeoutError(ToolCallError):
    """The tool took too long."""

    type = "tool_timeout"


class ServerDiedError(ToolCallError):
    """The MCP server exited during the call."""

    type = "server_died"
    #: Its exit code, if any.
    exit_code: Optional[int] = None
    #: The signal that ended it.
    signal: Optional[str] = None


class ServerUnreachableError(ToolCallError):
    """The MCP server does not start or cannot be reached."""

    type = "server_unreachable"
    #: The exit code of a server that exited immediately.
    exit_code: Optional[int] = None
    #: The signal that ended it.
    signal: Optional[str] = None


class LoginRequiredError(ServerUnreachableError):
    """The remote MCP server requires a login, which only the user can perform."""

    type = "login_required"


class UnknownServerError(ServerUnreachableError):
    """No MCP server of that name is registered."""

    type = "unknown_server"


class ToolCancelledError(ToolCallError):
    """The application cancelled the call, for example with a reset."""

    type = "cancelled"


class OutcomeUnknownError(ToolCallError):
    """The call may have been made, but its outcome was lost with the host. It is not repeated."""

    type = "outcome_unknown"


class ToolServerError(ToolCallError):
    """ipybox's own tool server cannot be reached, or refused the request."""

    type = "tool_server_error"


_CLASSES: tuple[type[ToolCallError], ...] = (
    ToolError,
    ToolProtocolError,
    InvalidArgumentsError,
    ApprovalRejectedError,
    ApprovalUnavailableError,
    ApprovalTimeoutError,
    ToolTimeoutError,
    ServerDiedError,
    ServerUnreachableError,
    LoginRequiredError,
    UnknownServerError,
    ToolCancelledError,
    OutcomeUnknownError,
    ToolServerError,
)

#: The exception classes by identifier.
ERROR_TYPES: dict[str, type[ToolCallError]] = {cls.type: cls for cls in _CLASSES}

_FIELDS = ("reason", "code", "data", "exit_code", "signal")


def error_from_wire(error: Mapping[str, Any]) -> ToolCallError:
    """Create the exception for an error from the tool server."""
    cls = ERROR_TYPES.get(str(error.get("type")), ToolCallError)
    exception = cls(str(error.get("message", "The tool call failed")))
    for field in _FIELDS:
        if field in error and hasattr(cls, field):
            setattr(exception, field, error[field])
    return exception


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer of the tool server, or raise the exception for its error."""
    error = answer.get("error")
    if error is not None:
        raise error_from_wire(error)
    return answer


@contextmanager
def located(server: str, tool: str) -> Generator[None, None, None]:
    """Add the server and the tool to the errors of a call."""
    try:
        yield
    except ToolCallError as error:
        error.server, error.tool = server, tool
        raise
