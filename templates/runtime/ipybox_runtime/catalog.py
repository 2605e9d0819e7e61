"""Resources and prompts of MCP servers."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from .arguments import encode
from .content import ResourceLink, ToolContent, ToolResource, content_block
from .errors import InvalidArgumentsError, checked, located
from .options import current_options
from .session import default_session


class ResourceTemplate:
    """A URI template of resources, such as ``file:///{path}``."""

    __slots__ = ("description", "mime_type", "name", "title", "uri_template")

    def __init__(self, template: Mapping[str, Any]) -> None:
        #: The template, with variables in braces.
        self.uri_template: str = template["uriTemplate"]
        #: Its name for programs.
        self.name: str = template.get("name", "")
        #: Its name for people.
        self.title: Optional[str] = template.get("title")
        #: A description of the resources.
        self.description: Optional[str] = template.get("description")
        #: Their MIME type.
        self.mime_type: Optional[str] = template.get("mimeType")

    def __repr__(self) -> str:
        return f"ResourceTemplate({self.uri_template!r}, name={self.name!r})"


class ResourceResult:
    """The contents of a resource: one, or several as for a folder."""

    __slots__ = ("contents",)

    def __init__(self, result: Mapping[str, Any]) -> None:
        #: The contents in order.
        self.contents: tuple[ToolResource, ...] = tuple(
            ToolResource({"resource": item}) for item in result["contents"]
        )

    @property
    def text(self) -> str:
        """The text contents, joined by newlines."""
        return "\n".join(item.text for item in self.contents if item.text is not None)

    @property
    def data(self) -> bytes:
        """The bytes of all contents, concatenated; text in UTF-8."""
        return b"".join(
            (item.text or "").encode() if item.data is None else item.data for item in self.contents
        )

    def __repr__(self) -> str:
        return f"ResourceResult({list(self.contents)!r})"


class PromptArgument:
    """An argument of a prompt."""

    __slots__ = ("description", "name", "required")

    def __init__(self, argument: Mapping[str, Any]) -> None:
        #: Its name.
        self.name: str = argument["name"]
        #: Its purpose.
        self.description: Optional[str] = argument.get("description")
        #: Whether it is required.
        self.required: bool = argument.get("required") is True

    def __repr__(self) -> str:
        return f"PromptArgument({self.name!r}, required={self.required})"


class Prompt:
    """A prompt of a server."""

    __slots__ = ("arguments", "description", "name", "title")

    def __init__(self, prompt: Mapping[str, Any]) -> None:
        #: Its name for programs.
        self.name: str = prompt["name"]
        #: Its name for people.
        self.title: Optional[str] = prompt.get("title")
        #: Its purpose.
        self.description: Optional[str] = prompt.get("description")
        #: Its arguments.
        self.arguments = tuple(PromptArgument(item) for item in prompt.get("arguments") or ())

    def __repr__(self) -> str:
        return f"Prompt({self.name!r}, arguments={list(self.arguments)!r})"


class PromptMessage:
    """A message of a prompt."""

    __slots__ = ("content", "role")

    def __init__(self, message: Mapping[str, Any]) -> None:
        #: The role: ``"user"`` or ``"assistant"``.
        self.role: str = message["role"]
        #: The content.
        self.content: ToolContent = content_block(message["content"])

    def __repr__(self) -> str:
        return f"PromptMessage({self.role!r}, {self.content!r})"


class PromptResult:
    """A prompt, filled in."""

    __slots__ = ("description", "messages")

    def __init__(self, result: Mapping[str, Any]) -> None:
        #: Its description.
        self.description: Optional[str] = result.get("description")
        #: Its messages in order.
        self.messages = tuple(PromptMessage(item) for item in result["messages"])

    def __repr__(self) -> str:
        return f"PromptResult({list(self.messages)!r})"


# The methods `list` below shadow the builtin, hence `List`.


class _Catalog:
    def __init__(self, server: str) -> None:
        #: The server's registered name.
        self.server = server

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        with located(self.server, method):
            body = self._body(method, params)
            return checked(default_session().call("catalog", body))["result"]

    async def _ask_async(self, method: str, params: Mapping[str, Any]) -> Any:
        with located(self.server, method):
            body = self._body(method, params)
            return checked(await default_session().call_async("catalog", body))["result"]

    def _complete(
        self, ref: Mapping[str, str], argument: str, value: str, given: Mapping[str, str]
    ) -> List[str]:
        completed = {"name": argument, "value": value}
        context = {"context": {"arguments": _texts(given)}} if given else {}
        params = {"ref": ref, "argument": completed, **context}
        values: List[str] = self._ask("completion/complete", params)["completion"]["values"]
        return values

    def _body(self, method: str, params: Mapping[str, Any]) -> bytes:
        options = current_options().request()
        options.pop("progress", None)
        return encode({"server": self.server, "method": method, "params": params, **options})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.server!r})"


class Resources(_Catalog):
    """The resources of one registered MCP server."""

    def list(self) -> List[ResourceLink]:
        """List all resources. Each has its URI and can be read."""
        return self._links(self._ask("resources/list", {}))

    async def list_async(self) -> List[ResourceLink]:
        """List resources without blocking the event loop."""
        return self._links(await self._ask_async("resources/list", {}))

    def templates(self) -> List[ResourceTemplate]:
        """List the URI templates of further resources."""
        result = self._ask("resources/templates/list", {})
        return [ResourceTemplate(item) for item in result["items"]]

    async def templates_async(self) -> List[ResourceTemplate]:
        """List URI templates without blocking the event loop."""
        result = await self._ask_async("resources/templates/list", {})
        return [ResourceTemplate(item) for item in result["items"]]

    def read(self, uri: str) -> ResourceResult:
        """Read a resource by its URI."""
        return ResourceResult(self._ask("resources/read", {"uri": uri}))

    async def read_async(self, uri: str) -> ResourceResult:
        """Read a resource without blocking the event loop."""
        return ResourceResult(await self._ask_async("resources/read", {"uri": uri}))

    def complete(self, uri_template: str, argument: str, value: str, /, **given: str) -> List[str]:
        """Complete a variable of a template. ``given`` has the variables that are already set."""
        ref = {"type": "ref/resource", "uri": uri_template}
        return self._complete(ref, argument, value, given)

    def _links(self, result: Mapping[str, Any]) -> List[ResourceLink]:
        links = [ResourceLink(item) for item in result["items"]]
        for link in links:
            link.server = self.server
        return links


class Prompts(_Catalog):
    """The prompts of one registered MCP server."""

    def list(self) -> List[Prompt]:
        """List all prompts."""
        return [Prompt(item) for item in self._ask("prompts/list", {})["items"]]

    async def list_async(self) -> List[Prompt]:
        """List prompts without blocking the event loop."""
        return [Prompt(item) for item in (await self._ask_async("prompts/list", {}))["items"]]

    def get(self, name: str, /, **arguments: str) -> PromptResult:
        """Fill in a prompt."""
        params = {"name": name, "arguments": _texts(arguments)}
        return PromptResult(self._ask("prompts/get", params))

    async def get_async(self, name: str, /, **arguments: str) -> PromptResult:
        """Fill in a prompt without blocking the event loop."""
        params = {"name": name, "arguments": _texts(arguments)}
        return PromptResult(await self._ask_async("prompts/get", params))

    def complete(self, name: str, argument: str, value: str, /, **given: str) -> List[str]:
        """Complete an argument of a prompt. ``given`` has the arguments that are already set."""
        ref = {"type": "ref/prompt", "name": name}
        return self._complete(ref, argument, value, given)


def _texts(arguments: Mapping[str, object]) -> Mapping[str, object]:
    for name, value in arguments.items():
        if not isinstance(value, str):
            raise InvalidArgumentsError(f"{name} must be text, like all prompt arguments")
    return arguments
