"""Content blocks in Anthropic's spelling, as Claude Code writes them down."""

from __future__ import annotations

from refold import messages as m
from refold.transcripts.foreign import is_list, listing, mapping, text
from refold.transcripts.foreign import name as named


def parts_of(content: object) -> list[m.AnyPart]:
    """Content in Anthropic's spelling: a string or a list of blocks."""
    if isinstance(content, str):
        return [m.Text(content)] if content else []
    if is_list(content):
        return [part_of(block) for block in listing(content)]
    return [] if content is None else [m.Opaque({"value": content})]


def part_of(block: object) -> m.AnyPart:
    if isinstance(block, str):
        return m.Text(block)
    raw = mapping(block)
    kind = raw.get("type")
    if kind == "text" and isinstance(raw.get("text"), str):
        return m.Text(raw["text"])
    if kind == "thinking" and isinstance(raw.get("thinking"), str):
        return m.Thinking(raw["thinking"], named(raw.get("signature")))
    if kind == "redacted_thinking" and isinstance(raw.get("data"), str):
        return m.Thinking(data=raw["data"])
    if kind == "tool_use" and named(raw.get("id")) and isinstance(raw.get("input"), dict):
        return m.Call(raw["id"], text(raw.get("name")), raw["input"])
    if kind == "image":
        source = mapping(raw.get("source"))
        if named(source.get("data")) or named(source.get("url")):
            media = named(source.get("media_type")) or "image/png"
            return m.Image(media, named(source.get("data")), named(source.get("url")))
    return m.Opaque(raw if raw else {"value": block})
