"""Lets code in the kernel call MCP tools on the host.

It needs only the standard library. Generated packages call tools through a ``ToolRunner``; the host
decides which calls are allowed.
"""

from .content import (
    ResourceLink,
    TextBlock,
    ToolAudio,
    ToolContent,
    ToolImage,
    ToolResource,
    ToolResult,
    ToolText,
    UnknownContent,
)
from .errors import (
    ApprovalRejectedError,
    ApprovalTimeoutError,
    ApprovalUnavailableError,
    InvalidArgumentsError,
    LoginRequiredError,
    OutcomeUnknownError,
    ServerDiedError,
    ServerUnreachableError,
    ToolCallError,
    ToolCancelledError,
    ToolError,
    ToolOutputError,
    ToolProtocolError,
    ToolServerError,
    ToolTimeoutError,
    UnknownServerError,
)
from .options import CallOptions, ToolProgress, call_options
from .tool_runner import ToolRunner

__all__ = [
    "ApprovalRejectedError",
    "ApprovalTimeoutError",
    "ApprovalUnavailableError",
    "CallOptions",
    "InvalidArgumentsError",
    "LoginRequiredError",
    "OutcomeUnknownError",
    "ResourceLink",
    "ServerDiedError",
    "ServerUnreachableError",
    "TextBlock",
    "ToolAudio",
    "ToolCallError",
    "ToolCancelledError",
    "ToolContent",
    "ToolError",
    "ToolImage",
    "ToolOutputError",
    "ToolProgress",
    "ToolProtocolError",
    "ToolResource",
    "ToolResult",
    "ToolRunner",
    "ToolServerError",
    "ToolText",
    "ToolTimeoutError",
    "UnknownContent",
    "UnknownServerError",
    "call_options",
]
