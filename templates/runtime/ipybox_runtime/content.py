"""The results of tools: text, images, audio, resources and structured content."""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from .errors import ToolProtocolError

if TYPE_CHECKING:
    from .catalog import ResourceResult


class ToolContent:
    """A block of a tool's result."""

    __slots__ = ("annotations", "meta")

    #: The block's type in MCP.
    type = ""

    def __init__(self, block: Mapping[str, Any]) -> None:
        #: The server's annotations, such as the audience.
        self.annotations: dict[str, Any] = block.get("annotations") or {}
        #: The block's ``_meta``.
        self.meta: Optional[dict[str, Any]] = block.get("_meta")


class TextBlock(ToolContent):
    """A block of text."""

    __slots__ = ("text",)
    type = "text"

    def __init__(self, block: Mapping[str, Any]) -> None:
        super().__init__(block)
        self.text: str = block["text"]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"TextBlock({self.text!r})"


class _Media(ToolContent):
    __slots__ = ("data", "mime_type")

    def __init__(self, block: Mapping[str, Any]) -> None:
        super().__init__(block)
        #: The bytes of the file.
        self.data: bytes = _decode(block["data"])
        #: The MIME type, such as ``"image/png"``.
        self.mime_type: str = block["mimeType"]

    def save(self, path: Union[str, os.PathLike[str]]) -> str:
        """Write the bytes to a file and return its path."""
        with open(path, "wb") as file:
            file.write(self.data)
        return os.fspath(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mime_type!r}, {len(self.data)} bytes)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {
            self.mime_type: base64.b64encode(self.data).decode("ascii"),
            "text/plain": repr(self),
        }


class ToolImage(_Media):
    """An image. It is displayed as the last value of a cell."""

    __slots__ = ()
    type = "image"


class ToolAudio(_Media):
    """A piece of audio."""

    __slots__ = ()
    type = "audio"


class ToolResource(ToolContent):
    """A resource that came with the result: text or bytes."""

    __slots__ = ("data", "mime_type", "text", "uri")
    type = "resource"

    def __init__(self, block: Mapping[str, Any]) -> None:
        super().__init__(block)
        resource = block["resource"]
        #: The resource's address.
        self.uri: str = resource["uri"]
        #: The MIME type.
        self.mime_type: Optional[str] = resource.get("mimeType")
        #: Its text, or ``None`` if it is bytes.
        self.text: Optional[str] = resource.get("text")
        #: Its bytes, or ``None`` if it is text.
        self.data: Optional[bytes] = _decode(resource["blob"]) if "blob" in resource else None

    def __repr__(self) -> str:
        size = len(self.text or self.data or "")
        return f"ToolResource({self.uri!r}, {self.mime_type!r}, size={size})"


class ResourceLink(ToolContent):
    """A link to a resource that can be read."""

    __slots__ = ("description", "mime_type", "name", "server", "size", "title", "uri")
    type = "resource_link"

    def __init__(self, block: Mapping[str, Any]) -> None:
        super().__init__(block)
        #: The resource's address.
        self.uri: str = block["uri"]
        #: Its name for programs.
        self.name: Optional[str] = block.get("name")
        #: Its name for people.
        self.title: Optional[str] = block.get("title")
        #: Its description.
        self.description: Optional[str] = block.get("description")
        #: The MIME type.
        self.mime_type: Optional[str] = block.get("mimeType")
        #: Its size in bytes.
        self.size: Optional[int] = block.get("size")
        #: The registered server that has the resource.
        self.server: Optional[str] = None

    def read(self) -> ResourceResult:
        """Read the resource, from the server that named it."""
        from .catalog import Resources

        if self.server is None:
            raise ValueError(f"Cannot read {self.uri}: its server is unknown")
        return Resources(self.server).read(self.uri)

    def __repr__(self) -> str:
        return f"ResourceLink({self.uri!r}, name={self.name!r})"


class UnknownContent(ToolContent):
    """A block of a type that this package does not know."""

    __slots__ = ("block",)

    def __init__(self, block: Mapping[str, Any]) -> None:
        super().__init__(block)
        #: The block as the server sent it.
        self.block: Mapping[str, Any] = block

    def __repr__(self) -> str:
        return f"UnknownContent({self.block!r})"


class ToolText(str):
    """The text of a tool's result, which also carries the rest of the result."""

    #: The content blocks in order.
    content: tuple[ToolContent, ...]
    #: The structured content: any JSON value, or ``None`` without any.
    structured: Any

    def __new__(
        cls, text: str, content: tuple[ToolContent, ...] = (), structured: Any = None
    ) -> ToolText:
        self = super().__new__(cls, text)
        self.content = content
        self.structured = structured
        return self

    @property
    def result(self) -> str:
        """The text, under the name that envelopes of structured results use."""
        return str(self)

    @property
    def images(self) -> tuple[ToolImage, ...]:
        """The images of the result."""
        return tuple(block for block in self.content if isinstance(block, ToolImage))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        images = self.images
        if not images:
            return {}
        bundle = images[0]._repr_mimebundle_()
        return {**bundle, "text/plain": repr(str(self)) if self else bundle["text/plain"]}


class ToolResult:
    """Everything that a tool returned."""

    __slots__ = ("content", "has_structured", "is_error", "meta", "structured", "text")

    def __init__(self, result: Mapping[str, Any]) -> None:
        #: The content blocks in order.
        self.content: tuple[ToolContent, ...] = tuple(
            content_block(item) for item in result.get("content", ())
        )
        texts = [block.text for block in self.content if isinstance(block, TextBlock)]
        #: Whether the server sent structured content, which may be ``None``, ``{}`` or ``0``.
        self.has_structured: bool = "structuredContent" in result
        #: The structured content: any JSON value.
        self.structured: Any = result.get("structuredContent")
        #: The text blocks, joined by newlines.
        self.text = ToolText("\n".join(texts), self.content, self.structured)
        #: Whether the tool reports a failure.
        self.is_error: bool = result.get("isError") is True
        #: The result's ``_meta``.
        self.meta: Optional[dict[str, Any]] = result.get("_meta")

    @property
    def images(self) -> tuple[ToolImage, ...]:
        """The images of the result."""
        return self.text.images

    def __repr__(self) -> str:
        structured = f", structured={self.structured!r}" if self.has_structured else ""
        return f"ToolResult(content={list(self.content)!r}{structured})"


_BLOCKS: dict[str, type[ToolContent]] = {
    cls.type: cls for cls in (TextBlock, ToolImage, ToolAudio, ToolResource, ResourceLink)
}


def content_block(block: Mapping[str, Any]) -> ToolContent:
    """Create the object for a content block."""
    return _BLOCKS.get(block["type"], UnknownContent)(block)


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolProtocolError(f"The server sent invalid base64: {error}") from error
