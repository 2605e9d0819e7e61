"""Keeps messages below the limit of the host's WebSocket (64 MiB).

A larger one would break the connection, and lose the kernel with all its variables.
"""

from typing import Any, cast

_LARGEST_MESSAGE = 60 << 20  # bytes of JSON; headers come on top
_KEPT = 4 << 20  # characters to keep of a text that is too long


def install(session: Any) -> None:
    """Make `session`, which packs the kernel's messages, omit what is too large."""
    pack = session.pack

    def pack_fitting(content: Any) -> bytes:
        packed = pack(content)
        if len(packed) <= _LARGEST_MESSAGE or not isinstance(content, dict):
            return packed
        parts = cast("dict[str, Any]", content)
        packed = pack(_shortened(parts))
        return packed if len(packed) <= _LARGEST_MESSAGE else pack(_emptied(parts))

    session.pack = pack_fitting


def _shortened(content: dict[str, Any]) -> dict[str, Any]:
    shortened = {key: _cut(value) for key, value in content.items()}
    if isinstance(content.get("data"), dict):
        shortened["data"] = _bundle(content["data"])
        shortened["metadata"] = {}
    if isinstance(content.get("traceback"), list):
        shortened["traceback"] = [_cut("\n".join(map(str, content["traceback"])))]
    if "payload" in content:
        shortened["payload"] = []
    return shortened


def _emptied(content: dict[str, Any]) -> dict[str, Any]:
    """Only the short fields, which are needed to interpret the message."""
    emptied = {key: value for key, value in content.items() if len(str(value)) < 1000}
    if "data" in content:
        emptied["data"] = {"text/plain": f"[ipybox: a value was omitted: {_REASON}]"}
    return emptied


def _bundle(data: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    notes: list[str] = []
    for mime, value in data.items():
        size = len(value) if isinstance(value, str) else len(repr(value))
        if mime == "text/plain" or size <= _KEPT:
            kept[mime] = value
        else:
            notes.append(f"[ipybox: {mime} of {size} characters was omitted: {_REASON}]")
    lines = [_cut(kept["text/plain"])] if "text/plain" in kept else []
    if lines or notes:
        kept["text/plain"] = "\n".join(lines + notes)
    return kept


def _cut(value: Any) -> Any:
    if not isinstance(value, str) or len(value) <= _KEPT:
        return value
    half = _KEPT // 2
    missing = len(value) - 2 * half
    # At the end, as the host may cut out the middle again.
    note = f"[ipybox: {missing} of {len(value)} characters were omitted: {_REASON}]"
    return f"{value[:half]}\n…\n{value[-half:]}\n{note}"


_REASON = f"the limit per message is {_LARGEST_MESSAGE >> 20} MiB; write it to a file or print it"
