"""Walks over messages that the counters share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from refold import messages as m


def strings(message: m.Message) -> Iterator[str]:
    """Every text of a message that the model reads: texts, thinking, names and arguments of calls."""
    if isinstance(message, m.Bash):
        if not message.hidden:
            yield message.text
        return
    for part in message.parts:
        yield from part_strings(part)


def part_strings(part: m.AnyPart) -> Iterator[str]:
    if isinstance(part, m.Text | m.Thinking):
        yield part.text
    elif isinstance(part, m.Call):
        yield part.name
        yield m.arguments_json(part)
    elif isinstance(part, m.Opaque):
        yield m.compact_json(part.raw)


def sealed(data: str) -> int:
    """Tokens of an encrypted thought. Measured on OpenAI's: 720 bytes of wrapping, then 4.36 a token."""
    return max(0, round((len(data) * 3 / 4 - 720) / 4.36))


def images(message: m.Message) -> Iterator[m.Image]:
    return (part for part in message.parts if isinstance(part, m.Image))


def tools_text(tools: Sequence[Any]) -> list[str]:
    """Tool definitions of any dialect as compact JSON, without the wrapping that the model never sees."""
    return [tool if isinstance(tool, str) else m.compact_json(_bare(_plain(tool))) for tool in tools]


def _plain(tool: Any) -> Any:
    if isinstance(tool, Mapping):
        return cast("Mapping[str, Any]", tool)
    dump = getattr(tool, "model_dump", None)
    return getattr(tool, "wire", None) or (msgspec.to_builtins(tool) if dump is None else dump())


def _bare(tool: Any) -> Any:
    inner: Any = cast("Mapping[str, Any]", tool).get("function") if isinstance(tool, Mapping) else None
    return cast("Any", inner if isinstance(inner, Mapping) else tool)
