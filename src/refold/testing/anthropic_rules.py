"""What Anthropic's messages API refuses. The quotations are the provider's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from refold.session.dialects.common import object_or_empty
from refold.testing.wire_rules import WireObject, blocks, tool_names

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_THOUGHTS = ("thinking", "redacted_thinking")
_SIDES = {
    "tool_use": "assistant",
    "tool_result": "user",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
}
_IN_RESULTS = ("image", "document", "search_result", "tool_reference")
_MEDIA = ("image/png", "image/jpeg", "image/gif", "image/webp")


def validate_anthropic(request: WireObject, *, partial: bool = False, thinking: bool = False) -> list[str]:
    """Problems of a request's `system`, `messages` and `tools`. `thinking`: extended thinking is on, so
    the tool loop at the end must start with a thinking block."""
    messages = cast(Sequence[WireObject], request.get("messages") or ())
    # "messages: at least one message is required"
    found = [] if messages else ["messages: at least one message is required"]
    check = _Anthropic(messages, found)
    for i in range(len(messages)):
        check.message(i)
    check.pairs(partial)
    check.ending()
    if thinking:
        check.loop()
    found.extend(_system(request.get("system"), found))
    found.extend(_cache(request))
    tools = cast(Sequence[WireObject], request.get("tools") or ())
    custom = ((k, t.get("name"), t["input_schema"]) for k, t in enumerate(tools) if "input_schema" in t)
    return found + tool_names(custom, _NAME)


class _Anthropic:
    def __init__(self, messages: Sequence[WireObject], found: list[str]) -> None:
        self.messages = messages
        self.found = found
        self.contents = [self._content(i) for i in range(len(messages))]
        self.ids: set[str] = set()

    def _content(self, i: int) -> list[WireObject]:
        content = self.messages[i].get("content")
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        return blocks(content, f"messages.{i}", self.found)

    def message(self, i: int) -> None:
        role = self.messages[i].get("role")
        if role not in ("user", "assistant"):
            # "messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter"
            self.found.append(f"messages.{i}: unexpected role {role!r}")
        if i == 0 and role != "user":
            self.found.append("messages: first message must use the 'user' role")
        if i and role == self.messages[i - 1].get("role"):
            # "messages: roles must alternate between "user" and "assistant", but found multiple … in a row"
            self.found.append(f"messages.{i}: multiple {role!r} roles in a row")
        if not self.contents[i]:
            # "messages.1: all messages must have non-empty content except for the optional final assistant …"
            self.found.append(f"messages.{i}: all messages must have non-empty content")
        for k, block in enumerate(self.contents[i]):
            self._block(str(role), block, f"messages.{i}.content.{k}")
        if role == "assistant" and self.contents[i] and self.contents[i][-1].get("type") in _THOUGHTS:
            # "messages.1: The final block in an assistant message cannot be `thinking`."
            self.found.append(f"messages.{i}: the final block in an assistant message cannot be thinking")

    def _block(self, role: str, block: WireObject, here: str) -> None:
        kind = str(block.get("type"))
        if kind in _SIDES and _SIDES[kind] != role:
            self.found.append(f"{here}: {kind} blocks belong to the {_SIDES[kind]}")
        self.found += _refused(kind, block, here)
        if kind == "tool_use":
            if (id := str(block.get("id"))) in self.ids:
                # "messages.1.content.1: `tool_use` ids must be unique"
                self.found.append(f"{here}: tool_use ids must be unique")
            self.ids.add(id)
        elif kind == "tool_result" and not isinstance(content := block.get("content"), str | None):
            for part in blocks(content, here, self.found):
                if part.get("type") == "text":
                    self.found += _refused("text", part, here)
                elif part.get("type") not in _IN_RESULTS:
                    self.found.append(f"{here}: a tool_result holds a part of type {part.get('type')!r}")

    def pairs(self, partial: bool) -> None:
        for i, content in enumerate(self.contents):
            uses = [str(b.get("id")) for b in content if b.get("type") == "tool_use"]
            following = self.contents[i + 1] if i + 1 < len(self.contents) else []
            given = self._results(i + 1, following)
            last = i + 1 >= len(self.contents) or (
                i + 2 == len(self.contents) and len(given) == len(following)
            )
            missing = [u for u in uses if u not in given]
            if missing and not (partial and last):
                # "messages.63: `tool_use` ids were found without `tool_result` blocks immediately after: …"
                self.found.append(f"messages.{i}: tool_use without tool_result immediately after: {missing}")
            for g in given:
                if g not in uses:
                    # "messages.8.content.0: unexpected `tool_use_id` found in `tool_result` blocks: …"
                    self.found.append(f"messages.{i + 1}: unexpected tool_use_id in tool_result: {g}")
        for g in self._results(0, self.contents[0]) if self.contents else ():
            self.found.append(f"messages.0: unexpected tool_use_id in tool_result: {g}")

    def _results(self, i: int, content: list[WireObject]) -> list[str]:
        given = [str(b.get("tool_use_id")) for b in content if b.get("type") == "tool_result"]
        if any(b.get("type") != "tool_result" for b in content[: len(given)]):
            # documented: tool_result blocks come first, any text after all of them
            self.found.append(f"messages.{i}: tool_result blocks must come first")
        if len(set(given)) < len(given):
            # "messages.4.content.5: each tool_use must have a single result. Found multiple …"
            self.found.append(f"messages.{i}: each tool_use must have a single result")
        return given

    def ending(self) -> None:
        if not self.messages or self.messages[-1].get("role") != "assistant" or not self.contents[-1]:
            return
        text = self.contents[-1][-1].get("text")
        if isinstance(text, str) and text != text.rstrip():
            # "messages: final assistant content cannot end with trailing whitespace"
            self.found.append("messages: final assistant content cannot end with trailing whitespace")

    def loop(self) -> None:
        plain = [
            i
            for i, m in enumerate(self.messages)
            if m.get("role") == "user" and all(b.get("type") != "tool_result" for b in self.contents[i])
        ]
        first = (plain[-1] if plain else -1) + 1
        if first < len(self.contents) and self.messages[first].get("role") == "assistant":
            kind = self.contents[first][0].get("type") if self.contents[first] else None
            uses = any(b.get("type") == "tool_use" for b in self.contents[first])
            if uses and kind not in _THOUGHTS:
                # "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is
                # enabled, a final `assistant` message must start with a thinking block"
                self.found.append(f"messages.{first}.content.0: expected thinking, but found {kind}")


def _refused(kind: str, block: WireObject, here: str) -> list[str]:
    return [f"{here}{why}" for of, wrong, why in _BLOCKS if of == kind and wrong(block)]


def _has_text(block: WireObject) -> bool:
    text = block.get("text")
    return isinstance(text, str) and bool(text.strip())


def _is_strange_image(block: WireObject) -> bool:
    source = object_or_empty(block.get("source"))
    return source.get("type") == "base64" and source.get("media_type") not in _MEDIA


_BLOCKS: Sequence[tuple[str, Callable[[WireObject], bool], str]] = (
    # "messages: text content blocks must be non-empty", "… must contain non-whitespace text"
    ("text", lambda b: not _has_text(b), ": text content blocks must contain non-whitespace text"),
    # "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    ("tool_use", lambda b: not _ID.fullmatch(str(b.get("id"))),
     ".tool_use.id: does not match '^[a-zA-Z0-9_-]+$'"),
    ("tool_use", lambda b: not _NAME.fullmatch(str(b.get("name"))),
     ".tool_use.name: does not match '^[a-zA-Z0-9_-]{1,128}$'"),
    # "messages.1.content.0.tool_use.input: Input should be a valid dictionary"
    ("tool_use", lambda b: not isinstance(b.get("input"), dict), ".tool_use.input: should be a dictionary"),
    # "messages.2.content.0.tool_result: content cannot be empty if `is_error` is true"
    ("tool_result", lambda b: bool(b.get("is_error")) and not b.get("content"),
     ".tool_result: content cannot be empty if is_error is true"),
    # "messages.1.content.0.thinking.signature: Field required"
    ("thinking", lambda b: not b.get("signature"), ".thinking.signature: field required"),
    ("redacted_thinking", lambda b: not b.get("data"), ".redacted_thinking.data: field required"),
    # "source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
    ("image", _is_strange_image, f".source.media_type: not one of {', '.join(_MEDIA)}"),
    ("image", lambda b: not any(map(object_or_empty(b.get("source")).get, ("data", "url", "file_id"))),
     ".source: empty"),
)  # fmt: skip
"""Kind of block → what is refused of it, and how that is told."""


def _system(system: Any, found: list[str]) -> list[str]:
    if system is None or isinstance(system, str):
        return []
    told = enumerate(blocks(system, "system", found))
    return [problem for k, block in told for problem in _refused("text", block, f"system.{k}")]


def _cache(request: WireObject) -> list[str]:
    messages = cast(Sequence[WireObject], request.get("messages") or ())
    lists = [request.get("tools"), request.get("system"), *(m.get("content") for m in messages)]
    blocks = [
        object_or_empty(b) for content in lists if isinstance(content, list) for b in cast(list[Any], content)
    ]
    marked = [b for b in blocks if b.get("cache_control")]
    found: list[str] = []
    if len(marked) > 4:
        # "A maximum of 4 blocks with cache_control may be provided. Found 5."
        found.append(f"a maximum of 4 blocks with cache_control may be provided, found {len(marked)}")
    if any(b.get("type") in _THOUGHTS for b in marked):
        # "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"
        found.append("cache_control is not permitted on thinking blocks")
    return found
