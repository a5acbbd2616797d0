"""Conversations in which a reply writes its call as text, and what the call printed comes in the user's role.

A call is `<function=NAME><parameter=KEY>VALUE</parameter>…</function>`, or a fenced command where the program
reads those. The reply's own wording is kept in `meta`. Entries are called by their position.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from refold import messages as m
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import seconds
from refold.transcripts.builder import Builder, chat_calls, chat_parts
from refold.transcripts.origins import OPENHANDS, SWE_AGENT, declared
from refold.transcripts.swe_agent import (
    OPENHANDS_OUTPUT,
    command_call,
    is_output,
    thought_and_command,
    tool_output,
    unheaded,
)
from refold.transcripts.values import as_list, as_name, as_object, as_text, first, without

PARAMETER = "<parameter="
_USED = frozenset({"role", "content", "text", "system_prompt", "tool_calls", "tool_call_id"})
_CALL, _END = "<function=", "</function>"
_PARAMETER_END = "</parameter>"
_OPENING = re.compile(r"(?<!\s)\s*+(?:```\w{0,40}+|<\w{1,80}+>)\s*+$")
"""What stands directly before a command."""
_ROLES = {"ai": "assistant", "gpt": "assistant", "human": "user"}


def message_content(raw: JsonObject) -> object:
    """What a message says, under any of the names it has in these files."""
    content = raw.get("content")
    return raw.get("text") or raw.get("system_prompt") or "" if content is None else content


def said_in(raw: JsonObject) -> str:
    """The text of a message, or its first one."""
    content = message_content(raw)
    return as_text(content) or as_text(first(content).get("text"))


def read_messages(log: Builder, messages: Sequence[object]) -> None:
    reading = _Import(log, by_position=_is_by_position(messages))
    for index, item in enumerate(messages):
        reading.take(as_object(item), index, item)


def _is_by_position(messages: Sequence[object]) -> bool:
    """Whether the user types nothing after the task: what follows a call is then its output, whatever it is.
    A program in which people do names the call in front of each output."""
    said = [raw for item in messages if (raw := as_object(item)).get("role") == "user"][1:]
    outputs = (output for raw in said if is_output(output := said_in(raw), {}))
    return any("text" in raw for raw in said) or any(
        not output.startswith(OPENHANDS_OUTPUT) for output in outputs
    )


class _Import:
    def __init__(self, log: Builder, *, by_position: bool) -> None:
        self.log = log
        self.by_position = by_position
        self.open: list[m.Call] = []
        """Calls of the last reply whose output is still to come."""

    def take(self, raw: JsonObject, index: int, item: object) -> None:
        given = as_text(raw.get("role"))
        parts = chat_parts(message_content(raw))
        role = _ROLES.get(given, given)
        if role == "assistant":
            self._reply(parts, raw, index)
        elif role == "user":
            self._user(parts, raw, index)
        elif role == "tool":
            self._say(m.Result(as_text(raw.get("tool_call_id")), tuple(parts)), raw, index)
        elif role == "system":
            self._say(m.System(tuple(parts)), raw, index)
        else:
            self.log.strange(raw, item, index)

    def _say(self, message: m.Message, raw: JsonObject, index: int, **more: Any) -> None:
        rest = {key: value for key, value in without(raw, _USED).items() if value is not None}
        when = seconds(raw.get("timestamp") or as_object(raw.get("extra")).get("timestamp"))
        self.log.say(message, index, time=when, meta={**rest, **more})

    def _reply(self, parts: list[m.AnyPart], raw: JsonObject, index: int) -> None:
        said = parts[0].text if len(parts) == 1 and isinstance(parts[0], m.Text) else ""
        found = None if raw.get("tool_calls") else self._written(said, raw, f"call-{index}")
        if found is None:
            self.open, calls = [], chat_calls(raw.get("tool_calls"))
            self._say(m.Assistant((*parts, *calls), "tool_use" if calls else "end"), raw, index)
            return
        thought, self.open = found
        self._say(m.Assistant((*m.content(thought), *self.open), "tool_use"), raw, index, content=said)

    def _written(self, said: str, raw: JsonObject, id: str) -> tuple[str, list[m.Call]] | None:
        """What was thought and what is called: `<function=…>`, the commands that the program noted beside the
        reply, or the last fenced block."""
        if call := _written_call(said, id):
            return call[0], [call[1]]
        if not self.by_position:
            return None
        noted = (
            as_name(as_object(each).get("command"))
            for each in as_list(as_object(raw.get("extra")).get("actions"))
        )
        if commands := list(filter(None, noted)):
            ids = [id, *(f"{id}.{number}" for number in range(1, len(commands)))]
            thought = _OPENING.sub("", said.partition(commands[0])[0])
            return thought, [command_call(*each) for each in zip(commands, ids, strict=True)]
        fenced = thought_and_command(said)
        return None if fenced is None else (fenced[0], [command_call(fenced[1].strip("\n"), id)])

    def _user(self, parts: list[m.AnyPart], raw: JsonObject, index: int) -> None:
        heading, output = unheaded(parts)
        if not is_output(said_in(raw), {}) and not (self.open and self.by_position):
            self.open = []
            self._say(m.User(declared(parts, (*OPENHANDS, *SWE_AGENT))), raw, index)
            return
        call = self.open.pop(0) if self.open else None
        answered = call and (not heading.startswith(OPENHANDS_OUTPUT) or f"[{call.name}]" in heading)
        result = tool_output(call.id if call and answered else "", output)
        self._say(result, raw, index, **({"heading": heading} if heading else {}))


def _written_call(said: str, id: str) -> tuple[str, m.Call] | None:
    """`<function=NAME><parameter=KEY>VALUE</parameter>…</function>`; the last tag is often cut off by the
    stop word that ended the reply."""
    start = said.find(_CALL)
    close = said.find(">", start)
    if start < 0 or close < 0:
        return None
    end = said.rfind(_END, close)
    if end >= 0 and said[end + len(_END) :].strip():
        return None  # talked on after it: the text only mentions a call
    body = said[close + 1 : end if end >= 0 else len(said)]
    arguments: dict[str, Any] = {}
    at = 0
    while (at := body.find(PARAMETER, at)) >= 0 and (key_end := body.find(">", at)) >= 0:
        stop = body.find(_PARAMETER_END, key_end)
        stop = stop if stop >= 0 else len(body)
        arguments[body[at + len(PARAMETER) : key_end]] = body[key_end + 1 : stop].strip("\n")
        at = stop
    return said[:start].rstrip("\n"), m.Call(id, said[start + len(_CALL) : close], arguments)
