"""Content blocks as Claude Code writes them (Anthropic's format), and their origin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from refold import messages as m
from refold.session.dialects import anthropic
from refold.text.lenient_json import JsonObject
from refold.transcripts import builder
from refold.transcripts.origins import CLAUDE_CODE, declared
from refold.transcripts.values import as_object, as_text

_REJECTED = "The user doesn't want to proceed with this tool use."
_WHY = "the user said:\n"


def user_messages(raw: JsonObject, blocks: Sequence[object], tools: Mapping[str, str]) -> list[m.Message]:
    """The messages of a record in the user's role: results first, as the provider demands, then text.
    `tools`: call → tool name. Empty for an attachment that the model sees in another form."""
    if raw.get("type") == "attachment":
        return _attachment(as_object(raw.get("attachment")))
    given = [block for block in map(as_object, blocks) if block.get("type") == "tool_result"]
    results = [_result(block, tools, as_object(raw.get("toolUseResult"))) for block in given]
    parts = parts_of_blocks([block for block in blocks if block not in given])
    return [*results, _user(raw, parts)] if parts else [*results]


def is_note(raw: JsonObject, message: m.User) -> bool:
    """True if a program added this: marked so, or an attachment without typed text."""
    origins = [part.origin for part in message.content if isinstance(part, m.Text)]
    return raw.get("isMeta") is True or (raw.get("type") == "attachment" and None not in origins)


def _user(raw: JsonObject, parts: Iterable[m.AnyPart]) -> m.User:
    written = declared(parts, CLAUDE_CODE)
    by_human = (as_text(as_object(raw.get("origin")).get("kind")) or "human") == "human"
    return m.User(
        written if by_human and raw.get("isMeta") is not True else m.with_origin("program", written)
    )


def _attachment(raw: JsonObject) -> list[m.Message]:
    """A queued prompt, or a file that the user named; other kinds are the program's own notes."""
    if raw.get("type") == "queued_command":
        prompted = (as_text(raw.get("commandMode")) or "prompt") == "prompt"
        parts = parts_of_blocks(raw.get("prompt"))
        said = _user(raw, parts) if prompted else m.User(m.with_origin("program", parts))
        return [said] if parts else []
    file = as_object(as_object(raw.get("content")).get("file"))
    if raw.get("type") != "file" or not as_text(file.get("content")):
        return []
    path = as_text(file.get("filePath")) or as_text(raw.get("filename"))
    return [m.user([m.attached(f"Contents of {path}:\n\n{file['content']}")])]


def _result(raw: JsonObject, tools: Mapping[str, str], known: JsonObject) -> m.Result:
    """The result of a call, and the user's own words in it. `known`: the program's notes on it."""
    call, content = as_text(raw.get("tool_use_id")), parts_of_blocks(raw.get("content"))
    failed, tool = raw.get("is_error") is True, tools.get(call, "mcp__")
    if len(content) == 1 and isinstance(content[0], m.Text):
        said = content[0].text
        if tool == "AskUserQuestion" and not failed:
            content = _answered(said, map(as_text, as_object(known.get("answers")).values()))
        elif failed and not tool.startswith("mcp__"):  # such a tool could write the same words itself
            at = said.find(_WHY) + len(_WHY)
            if said.startswith(_REJECTED) and at >= len(_WHY) and said[at:].strip():
                content = [m.Text(said[:at], "program"), m.Text(said[at:], "typed")]
    return m.Result(call, tuple(content), None, failed)


def _answered(said: str, answers: Iterable[str]) -> list[m.AnyPart]:
    """`User has answered your questions: "which?"="this one". …`: the answers are the user's."""
    parts: list[m.AnyPart] = []
    at = 0
    for answer in filter(None, answers):
        start = said.find(f'="{answer}"', at) + 2
        if start > at + 1:
            parts += [m.Text(said[at:start], "program"), m.Text(answer, "typed")]
            at = start + len(answer)
    return [*parts, m.Text(said[at:], "program" if parts else None)]


def parts_of_blocks(content: object) -> list[m.AnyPart]:
    return builder.build_parts(content, anthropic.parse_block)
