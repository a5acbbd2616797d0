"""SWE-agent: `*.traj`.

The history is the conversation. With function calling it holds calls; without, a reply is a thought and a
fenced command, and the next user message is what the command printed: these become a call and its result
(the reply's own text is kept in `meta`). Entries are called by their position in the history.
"""

from __future__ import annotations

import re
from typing import Any

from refold import entries as e
from refold import messages as m
from refold.protocols import Loaded
from refold.text.lenient_json import JsonObject
from refold.transcripts.base import Head, TranscriptFile
from refold.transcripts.builder import (
    Builder,
    chat_calls,
    chat_parts,
    chosen_object,
    thinking_parts,
    without_terminal_codes,
)
from refold.transcripts.origins import SWE_AGENT, declared
from refold.transcripts.values import as_list, as_name, as_object, as_text, first, without

name = "swe-agent"

OPENHANDS_OUTPUT = "EXECUTION RESULT of ["
"""How OpenHands announces the output of a call, by the tool's name."""
OUTPUT_HEADING = re.compile(r"(?:OBSERVATION:|Observation:|EXECUTION RESULT of \[[^\]\n]{0,200}\]:) *\n?")
"""How a message in the user's role begins that holds the output of a tool."""
_OUTPUT = re.compile(
    OUTPUT_HEADING.pattern
    + r"|<returncode>-?\d+</returncode>|Your command ran successfully and did not produce any output\."
)
"""The same, and what has no heading: outputs of mini-swe-agent, and of a command that prints nothing."""
_USED = frozenset({"role", "content", "tool_calls", "tool_call_ids"})
_STEP_USED = frozenset({"messages", "query", "response", "observation", "thought", "action"})
_WITH_PATH = frozenset({"open", "create"})
_COMMANDS = _WITH_PATH | {
    "edit", "goto", "scroll_up", "scroll_down", "search_dir", "search_file", "find_file", "submit", "insert",
    "append", "undo_edit", "filemap", "view_image", "exit_forfeit",
}  # fmt: skip


def detect(head: Head) -> float:
    value = as_object(head.value) or (head.records[0] if head.records else {})
    step = first(value.get("trajectory"))
    if "action" in step and ("observation" in step or "response" in step):
        return 0.95
    said = first(value.get("history"))
    if "role" in said and ("agent" in said or "trajectory" in value):
        return 0.9
    return 0.5 if "history" in value and ("trajectory" in value or "environment" in value) else 0.0


def read(source: TranscriptFile) -> Loaded:
    raw = chosen_object(source)
    steps = [as_object(step) for step in as_list(raw.get("trajectory"))]
    history = as_list(raw.get("history")) or _history(steps)
    log = Builder(name, source)
    reading = _Import(log, steps)
    for index, item in enumerate(history):
        reading.take(as_object(item), index, item)
    log.info.update(without(raw, frozenset({"history", "trajectory"})))
    return log.loaded()


def _history(steps: list[JsonObject]) -> list[Any]:
    """The conversation of a file that holds only the steps."""
    opening = steps[0] if steps else {}
    said: list[Any] = []
    for item in as_list(opening.get("messages")) or as_list(opening.get("query")):
        if as_object(item).get("role") == "assistant":
            break
        said.append(item)
    for step in steps:
        reply = {
            "role": "assistant",
            "content": as_text(step.get("response")) or as_text(step.get("thought")),
        }
        said.append({**reply, "thought": step.get("thought"), "action": step.get("action")})
        said.append({"role": "user", "content": step.get("observation") or ""})
    return said


class _Import:
    def __init__(self, log: Builder, steps: list[JsonObject]) -> None:
        self.log = log
        self.steps = iter(steps)
        self.open: list[str] = []
        """Calls of the last reply that have no output yet."""
        self.replied = False
        """Before the first reply there is nothing to observe: the task is filed as an observation too."""
        self.prompted = False
        """The last reply was a command at the prompt: the next user message is its output."""

    def take(self, raw: JsonObject, index: int, item: object) -> None:
        match raw.get("role"):
            case "assistant" | "ai":
                self._reply(raw, index)
            case "tool":
                ids = [as_text(id) for id in as_list(raw.get("tool_call_ids"))]
                self._output(raw, index, ids[0] if ids else as_text(raw.get("tool_call_id")))
            case "user" if self.prompted or is_output(raw.get("content"), raw if self.replied else {}):
                self._output(raw, index)
            case "user" if raw.get("is_demo") is True:
                content = m.with_origin("program", chat_parts(raw.get("content")))
                self.log.add(e.Note, index, content=content, kind="demo", meta=without(raw, _USED))
            case "user":
                self._say(m.User(declared(chat_parts(raw.get("content")), SWE_AGENT)), raw, index)
            case "system":
                self._say(m.System(tuple(chat_parts(raw.get("content")))), raw, index)
            case _:
                self.log.strange(raw, item, index)

    def _say(self, message: m.Message, raw: JsonObject, index: int, **more: Any) -> None:
        self.log.say(message, index, meta={**without(raw, _USED), **more})

    def _output(self, raw: JsonObject, index: int, call: str = "") -> None:
        """What a tool printed: the result of the call it names or of the only open one."""
        call = call or (self.open[0] if len(self.open) == 1 else "")
        heading, parts = unheaded(chat_parts(raw.get("content")))
        said = tool_output(call, parts)
        self.open = [id for id in self.open if id != call]
        self.prompted = False
        self._say(said, raw, index, **({"heading": heading} if heading else {}))

    def _reply(self, raw: JsonObject, index: int) -> None:
        step = without(next(self.steps, JsonObject()), _STEP_USED)
        more: dict[str, Any] = {"step": step} if step else {}
        calls = chat_calls(raw.get("tool_calls"))
        self.open, self.prompted, self.replied = [call.id for call in calls], False, True
        if calls or not as_name(raw.get("action")):
            thoughts = thinking_parts(raw.get("thinking_blocks"))
            parts = (*thoughts, *chat_parts(raw.get("content")), *calls)
            self._say(m.Assistant(parts, "tool_use" if calls else "end"), raw, index, **more)
            return
        call = command_call(raw["action"], f"call-{index}")
        self.open, self.prompted = [call.id], True
        said = m.Assistant((*m.content(as_text(raw.get("thought"))), call), "tool_use")
        self._say(said, raw, index, content=raw.get("content"), **more)


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
