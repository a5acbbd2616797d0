"""The field `context_management` of a request: Anthropic's edits, OpenAI's threshold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from refold.gateway.auth import RequestRefused
from refold.session.dialects.common import list_or_empty
from refold.text.lenient_json import JsonObject

CLEARED_RESULT = "[The result of this tool call was cleared to save context.]"

TokenCount = Callable[[Sequence[JsonObject]], int]


class Amount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["input_tokens", "tool_uses", "thinking_turns", "all"]
    value: int = 0


class ClearThinking(msgspec.Struct, frozen=True, tag="clear_thinking_20251015", forbid_unknown_fields=True):
    keep: Amount | Literal["all"] = Amount("thinking_turns", 1)


class ClearToolUses(msgspec.Struct, frozen=True, tag="clear_tool_uses_20250919", forbid_unknown_fields=True):
    trigger: Amount = Amount("input_tokens", 100_000)
    keep: Amount = Amount("tool_uses", 3)
    clear_at_least: Amount | None = None
    exclude_tools: list[str] | None = None
    clear_tool_inputs: bool | list[str] | None = None


class Compact(msgspec.Struct, frozen=True, tag="compact_20260112", forbid_unknown_fields=True):
    trigger: Amount | None = None
    instructions: str | None = None
    pause_after_compaction: bool = False


class _Managed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    edits: list[ClearThinking | ClearToolUses | Compact] = []


class _Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Literal["compaction"]
    compact_threshold: int | None = None


class ContextEdits(msgspec.Struct, frozen=True):
    """The changes that a request asks for in its history, in either protocol."""

    clearing: tuple[ClearThinking | ClearToolUses, ...] = ()
    compact: Compact | None = None


DEFAULT_TRIGGER = 150_000


def context_edits_of(dialect: str, body: JsonObject) -> ContextEdits | None:
    """The changes that a request asks for, or None; refuses those that are not supported."""
    given = body.get("context_management")
    if given is None:
        return None
    try:
        if dialect == "responses":
            found = msgspec.convert(given, list[_Threshold])
            wanted = next((each.compact_threshold for each in found), None)
            trigger = None if wanted is None else Amount("input_tokens", wanted)
            return ContextEdits(compact=Compact(trigger) if found else None)
        edits = msgspec.convert(given, _Managed).edits
    except msgspec.ValidationError as error:
        raise RequestRefused(400, f"context_management: {error}", "invalid_request_error") from None
    clearing = tuple(edit for edit in edits if not isinstance(edit, Compact))
    return ContextEdits(clearing, next((edit for edit in edits if isinstance(edit, Compact)), None))


def cleared(
    wire: Sequence[JsonObject], edits: ContextEdits, count: TokenCount
) -> tuple[Sequence[JsonObject], list[JsonObject]]:
    """The messages with results or thinking cleared, and the edits as the provider reports them."""
    applied: list[JsonObject] = []
    for edit in edits.clearing:
        if isinstance(edit, ClearThinking):
            what, (after, number) = "cleared_thinking_turns", _thinking(wire, edit)
        else:
            what, (after, number) = "cleared_tool_uses", _tool_uses(wire, edit, count)
        if not number:
            continue
        saved = max(0, count(wire) - count(after))
        if isinstance(edit, ClearToolUses) and edit.clear_at_least and saved < edit.clear_at_least.value:
            continue
        applied.append({"type": edit.__struct_config__.tag, what: number, "cleared_input_tokens": saved})
        wire = after
    return wire, applied


def _blocks(message: JsonObject) -> list[JsonObject]:
    return list_or_empty(message.get("content"))


def _thinking(wire: Sequence[JsonObject], edit: ClearThinking) -> tuple[Sequence[JsonObject], int]:
    """Clears thinking of older turns. A turn ends at the user's next message, not at tool results."""
    if edit.keep == "all" or edit.keep.type == "all":
        return wire, 0
    turns: list[list[int]] = [[]]
    for at, message in enumerate(wire):
        if message.get("role") == "user" and not _is_results(message):
            turns.append([])
        elif any(_is_thinking(block) for block in _blocks(message)):
            turns[-1].append(at)
    thought = [turn for turn in turns if turn]
    old = thought[: max(0, len(thought) - edit.keep.value)]
    taken = {at for turn in old for at in turn}
    # A message of thoughts alone keeps them: it would be empty.
    taken = {at for at in taken if not all(_is_thinking(block) for block in _blocks(wire[at]))}
    after = [
        {**message, "content": [block for block in _blocks(message) if not _is_thinking(block)]}
        if at in taken
        else message
        for at, message in enumerate(wire)
    ]
    return after, sum(any(at in taken for at in turn) for turn in old)


def _tool_uses(
    wire: Sequence[JsonObject], edit: ClearToolUses, count: TokenCount
) -> tuple[Sequence[JsonObject], int]:
    """Clears tool results, oldest first; results that are already cleared do not count."""
    uses = [block for message in wire for block in _blocks(message) if block.get("type") == "tool_use"]
    reached = len(uses) if edit.trigger.type == "tool_uses" else count(wire)
    if reached <= edit.trigger.value:
        return wire, 0
    spared = {use.get("id") for use in uses if use.get("name") in (edit.exclude_tools or ())}
    old = uses[: max(0, len(uses) - edit.keep.value)]
    ids = {use.get("id") for use in old} - spared
    inputs = edit.clear_tool_inputs
    named = {use.get("name") for use in old} if inputs is True else set(inputs or ())
    done: set[Any] = set()

    def without(block: JsonObject) -> JsonObject:
        if block.get("type") == "tool_result" and block.get("tool_use_id") in ids:
            if block.get("content") != CLEARED_RESULT:
                done.add(block["tool_use_id"])
            return {**block, "content": CLEARED_RESULT}
        if block.get("type") == "tool_use" and block.get("id") in ids and block.get("name") in named:
            return {**block, "input": {}}
        return block

    after = [
        {**message, "content": [without(block) for block in _blocks(message)]}
        if _blocks(message)
        else message
        for message in wire
    ]
    return after, len(done)


def _is_thinking(block: JsonObject) -> bool:
    return block.get("type") in ("thinking", "redacted_thinking")


def _is_results(message: JsonObject) -> bool:
    blocks = _blocks(message)
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)
