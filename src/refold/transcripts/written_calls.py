"""Conversations in which a reply writes its call as text, and what the call printed comes in the user's role.

A call is `<function=NAME><parameter=KEY>VALUE</parameter>…</function>`, a fenced command where the program
reads those, or the `action` noted beside a reply. The reply's own wording is kept in `meta`. Entries are
called by their position.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from refold import entries as e
from refold import messages as m
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import seconds
from refold.transcripts.builder import (
    Builder,
    chat_calls,
    chat_parts,
    thinking_parts,
    without_terminal_codes,
)
from refold.transcripts.origins import OPENHANDS, SWE_AGENT, declared
from refold.transcripts.values import as_list, as_name, as_object, as_text, first, without

PARAMETER = "<parameter="
_USED = frozenset({"role", "content", "text", "system_prompt", "tool_calls", "tool_call_id", "tool_call_ids"})
_CALL, _END = "<function=", "</function>"
_PARAMETER_END = "</parameter>"
_OPENING = re.compile(r"(?<!\s)\s*+(?:```\w{0,40}+|<\w{1,80}+>)\s*+$")
"""What stands directly before a command."""
_ROLES = {"ai": "assistant", "gpt": "assistant", "human": "user"}
OPENHANDS_OUTPUT = "EXECUTION RESULT of ["
"""How OpenHands announces the output of a call, by the tool's name."""
OUTPUT_HEADING = re.compile(r"(?:OBSERVATION:|Observation:|EXECUTION RESULT of \[[^\]\n]{0,200}\]:) *\n?")
"""How a message in the user's role begins that holds the output of a tool."""
_OUTPUT = re.compile(
    OUTPUT_HEADING.pattern
    + r"|<returncode>-?\d+</returncode>|Your command ran successfully and did not produce any output\."
)
"""The same, and what has no heading: outputs of mini-swe-agent, and of a command that prints nothing."""
_WITH_PATH = frozenset({"open", "create"})
_COMMANDS = _WITH_PATH | {
    "edit", "goto", "scroll_up", "scroll_down", "search_dir", "search_file", "find_file", "submit", "insert",
    "append", "undo_edit", "filemap", "view_image", "exit_forfeit",
}  # fmt: skip


def message_content(raw: JsonObject) -> object:
    """What a message says, under any of the names it has in these files."""
    content = raw.get("content")
    return raw.get("text") or raw.get("system_prompt") or "" if content is None else content


def said_in(raw: JsonObject) -> str:
    """The text of a message, or its first one."""
    content = message_content(raw)
    return as_text(content) or as_text(first(content).get("text"))


def read_messages(log: Builder, messages: Sequence[object]) -> None:
    WrittenCalls(log, by_position=_is_by_position(messages)).read(messages)


def _is_by_position(messages: Sequence[object]) -> bool:
    """Whether the user types nothing after the task: what follows a call is then its output, whatever it is.
    A program in which people do names the call in front of each output."""
    said = [raw for item in messages if (raw := as_object(item)).get("role") == "user"][1:]
    outputs = (output for raw in said if is_output(output := said_in(raw), {}))
    return any("text" in raw for raw in said) or any(
        not output.startswith(OPENHANDS_OUTPUT) for output in outputs
    )


class WrittenCalls:
    """Reads the messages of a trajectory. `steps`: what is known beside each reply. `by_position`: what
    follows a call in the user's role is its output, whatever it is."""

    def __init__(
        self, log: Builder, steps: Iterable[JsonObject] | None = None, *, by_position: bool = False
    ) -> None:
        self.log = log
        self.timed = steps is None
        """Trajectories with steps tell no times."""
        self.steps = iter(steps or ())
        self.by_position = by_position
        self.open: list[m.Call] = []
        """Calls of the last reply whose output is still to come."""
        self.prompted = False
        """What the user says next is the output of these calls."""
        self.by_id = False
        """Each of them has an id that its output names."""
        self.replied = False
        """Before the first reply there is nothing to observe: the task is filed as an observation, too."""

    def read(self, messages: Sequence[object]) -> None:
        for index, item in enumerate(messages):
            self._take(as_object(item), index, item)

    def _take(self, raw: JsonObject, index: int, item: object) -> None:
        role = as_text(raw.get("role"))
        parts = chat_parts(message_content(raw))
        match _ROLES.get(role, role):
            case "assistant":
                self._reply(parts, raw, index)
            case "tool":
                ids = [as_text(id) for id in as_list(raw.get("tool_call_ids"))]
                self._output(parts, raw, index, ids[0] if ids else as_text(raw.get("tool_call_id")))
            case "user" if self._is_output(raw):
                self._output(parts, raw, index)
            case "user" if raw.get("is_demo") is True:
                content = m.with_origin("program", parts)
                self.log.add(e.Note, index, content=content, kind="demo", meta=without(raw, _USED))
            case "user":
                self.open = []
                self._say(m.User(declared(parts, (*OPENHANDS, *SWE_AGENT))), raw, index)
            case "system":
                self._say(m.System(tuple(parts)), raw, index)
            case _:
                self.log.strange(raw, item, index)

    def _say(self, message: m.Message, raw: JsonObject, index: int, **more: Any) -> None:
        rest = {key: value for key, value in without(raw, _USED).items() if value is not None}
        when = seconds(raw.get("timestamp") or as_object(raw.get("extra")).get("timestamp"))
        place = {"time": when} if self.timed else {}
        self.log.say(message, index, **place, meta={**rest, **more})

    def _reply(self, parts: list[m.AnyPart], raw: JsonObject, index: int) -> None:
        step = next(self.steps, JsonObject())
        more: dict[str, Any] = {"step": step} if step else {}
        said = parts[0].text if len(parts) == 1 and isinstance(parts[0], m.Text) else ""
        found = None if raw.get("tool_calls") else self._written(said, raw, f"call-{index}")
        self.replied, self.by_id = True, found is None
        self.prompted = self.by_position or (found is not None and "action" in raw)
        if found is None:
            self.open = chat_calls(raw.get("tool_calls"))
            content = (*thinking_parts(raw.get("thinking_blocks")), *parts, *self.open)
            self._say(m.Assistant(content, "tool_use" if self.open else "end"), raw, index, **more)
            return
        thought, self.open = found
        content = (*m.content(thought), *self.open)
        self._say(m.Assistant(content, "tool_use"), raw, index, content=said, **more)

    def _written(self, said: str, raw: JsonObject, id: str) -> tuple[str, list[m.Call]] | None:
        """What was thought and what is called: the commands that the program noted beside the reply,
        `<function=…>`, or the last fenced block."""
        if action := as_name(raw.get("action")):
            return as_text(raw.get("thought")), [command_call(action, id)]
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

    def _is_output(self, raw: JsonObject) -> bool:
        waits = bool(self.open) and self.prompted
        return waits or is_output(said_in(raw), raw if self.replied else {})

    def _output(self, parts: list[m.AnyPart], raw: JsonObject, index: int, id: str = "") -> None:
        """What a tool printed: the result of the call that it names, or of the next one that waits; where
        several with ids wait, of none."""
        heading, output = unheaded(parts)
        if not id and self.open and not (self.by_id and len(self.open) > 1):
            call = self.open.pop(0)
            answered = not heading.startswith(OPENHANDS_OUTPUT) or f"[{call.name}]" in heading
            id = call.id if answered else ""
        more = {"heading": heading} if heading else {}
        self._say(tool_output(id, output), raw, index, **more)


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


def is_output(content: object, raw: JsonObject) -> bool:
    """Whether a message in the user's role is what a tool printed."""
    said = content if isinstance(content, str) else as_text(first(content).get("text"))
    return _OUTPUT.match(said) is not None or raw.get("message_type") == "observation"


def unheaded(parts: list[m.AnyPart]) -> tuple[str, list[m.AnyPart]]:
    """The line that announces the output of a tool, and what was printed."""
    said = parts[0].text if parts and isinstance(parts[0], m.Text) else ""
    heading = OUTPUT_HEADING.match(said)
    if heading is None:
        return "", parts
    return heading[0].strip(), [m.Text(said[heading.end() :]), *parts[1:]]


def tool_output(call: str, parts: list[m.AnyPart]) -> m.Message:
    """What a tool printed. Where the call that it answers is unknown, it is a quotation."""
    return (
        m.Result(call, tuple(parts))
        if call
        else m.User(m.with_origin("quoted", map(without_terminal_codes, parts)))
    )


def command_call(command: str, id: str) -> m.Call:
    """A command typed at SWE-agent's prompt, as a call of that command, or of the shell."""
    words = command.split(None, 2)
    verb = words[0] if words else ""
    if verb not in _COMMANDS:
        return m.Call(id, "bash", {"command": command})
    if verb in _WITH_PATH and len(words) > 1:
        return m.Call(id, verb, {"path": words[1].strip("\"'"), "command": command})
    return m.Call(id, verb, {"command": command})


def thought_and_command(said: str) -> tuple[str, str] | None:
    """A reply split at its last fenced block; None where there is none."""
    end = said.rfind("```")
    start = said.rfind("```", 0, end) if end > 0 else -1
    if start < 0:
        return None
    first_line = said.find("\n", start, end)
    if first_line < 0:
        return None
    return said[:start].rstrip("\n"), said[first_line + 1 : end]
