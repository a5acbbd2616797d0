"""Tool calling as text (E14), for models that have none of their own.

    Thought: I have to see the file first.
    Action: Read[{"path": "a.py"}]

    [tool] {"tool_name": "Read", "step": 1, "status": "success", …}

    Action: Finish[The bug was …]

The log never holds this text: it holds calls and results as for every other model, and this model between the
loop and the real one writes and reads them as text. So one history serves both ways of calling.

Reading is tolerant: other brackets, code fences, trailing commas, single quotes, a missing end, a line
`Action Input:`, arguments as `key=value`. What cannot be read becomes a call that is answered by
how to write it (`call_correction`).

What others wrote is no action when the model repeats it: not in a quotation (`>`), not in a code block beside
an action outside of one, and not where it stands word for word in a result of the conversation.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, cast

import msgspec

from refold import messages as m
from refold.messages import Assistant, Call, Message, Result, Text, Thinking, User, compact_json
from refold.models.reply import closing
from refold.models.retry import Wrapped
from refold.protocols import Event, PartDone, Request, Stopped, TextDelta, ToolSpec
from refold.session.tree import random_id
from refold.tools.base import example

FINISH = "Finish"
LABEL = 16
"""Characters after which the label at the beginning of a reply is complete."""
MAX_ACTIONS = 64
"""Actions of one reply that are read; those after them are left out."""
UNREADABLE = "unreadable_action"
"""Name of a call that stands for an unreadable action."""
QUOTED_CALL = "a quotation: it stands word for word in the output of a tool."

PROTOCOL_INTRODUCTION = """
You act by writing text. Each reply is a thought and one action, nothing after it:

Thought: why the next step is the right one
Action: Tool[{"argument": "value"}]

The arguments are one JSON object. You then get the outcome as a message that begins with [tool]; never write
such a message yourself. When the work is done, or you have a question, end the turn with:

Action: Finish[what you want to say to the user]

Tools:
"""

_ACTION = re.compile(
    r"^[ \t*_`#-]{0,8}action[ \t*_`]{0,4}[:：](?:[\s*_]|`(?!``)){0,8}"
    r"(?:(?P<name>[A-Za-z]\w{0,63})[ \t*_`]{0,4})?(?:\s{0,8}action input[ \t]?[:：])?"
    r"\s{0,8}(?P<open>[\[(（【])?",
    re.IGNORECASE | re.MULTILINE,
)
_BEGINNING = re.compile(r"[ \t>*_`#-]{0,8}(?:a(?:c(?:t(?:i(?:o(?:n.{0,200})?)?)?)?)?)?$", re.IGNORECASE)
"""A line that may become an action."""
_MADE_UP = re.compile(r"^[ \t>*_`#-]{0,8}(?:\[tool\]|observation[ \t]?[:：])", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(r"^[ \t>*_`#-]{0,8}thought[ \t*_`]{0,4}[:：][ \t*_`]{0,4}", re.IGNORECASE)
_FENCE = re.compile(r"\s*```\w{0,10}\s*")
_ONLY = re.compile(r"[ \t]*(?P<text>[^\s\[({\])}=][^\n\[({\])}]{0,1000})[\])）】]+[ \t`*_]*$", re.MULTILINE)
"""One argument without its name and without brackets."""
_COMMA = re.compile(r",(\s*[}\]])")
_CLOSING = " \t\r\n`*_"
_JSON_WORDS = {"true": True, "false": False, "null": None}


class TextProtocol(Wrapped):
    """A model with tool calling, made from one without."""

    native_tools = True

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        if request.purpose != "chat":
            async for event in self.model.stream(request):
                yield event
            return
        reading = Reading(request.tools, request.messages)
        async with closing(self.model.stream(as_text_request(request))) as events:
            async for event in events:
                match event:
                    case TextDelta(text):
                        for piece in reading.add(text):
                            yield TextDelta(piece)
                    case PartDone(Text(text)):
                        reading.whole(text)
                    case Stopped(reason):
                        for each in reading.end():
                            yield each
                        yield Stopped("tool_use" if reading.calls else reason)
                    case PartDone(Call()):
                        pass  # of a provider that calls nevertheless; it was offered nothing
                    case _:
                        yield event


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def as_text_request(request: Request) -> Request:
    """The request with its tools, calls and results as text."""
    system = request.system or ""
    if request.tools:
        listed = "".join(f"- {spec.name}[{example(spec)}]: {spec.description}\n" for spec in request.tools)
        system = f"{system}\n{PROTOCOL_INTRODUCTION}{listed}".strip()
    messages, steps = list[Message](), 0
    for message in request.messages:
        steps = 0 if isinstance(message, User) else steps + isinstance(message, Result)
        messages.append(_written(message, steps))
    return msgspec.structs.replace(
        request, system=system or None, tools=(), messages=tuple(_joined(messages))
    )


def _written(message: Message, step: int) -> Message:
    if isinstance(message, Assistant):
        return Assistant((Text(_reply(message)),), stop="end")
    if isinstance(message, Result):
        text = compact_json({"tool_name": message.name or "", "step": step, **_fields(message)})
        others = tuple(part for part in message.content if not isinstance(part, Text | Thinking))
        return User((Text(f"[tool] {text}", "tool"), *others))
    return message


def _reply(message: Assistant) -> str:
    said = [part.text for part in message.content if isinstance(part, Text) and part.text.strip()]
    actions = [f"Action: {call.name}[{m.arguments_json(call)}]" for call in message.calls]
    if not actions and said and message.stop not in ("error", "aborted"):
        actions = [f"Action: {FINISH}[{said.pop()}]"]
    thought = "\n".join(said)
    return "\n".join([*([f"Thought: {thought}"] if said else []), *actions])


def _fields(message: Result) -> dict[str, Any]:
    """The envelope, or any other text as `text`."""
    try:
        found = msgspec.json.decode(message.text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        found = None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"text": message.text}


def _joined(messages: Sequence[Message]) -> Iterator[Message]:
    """Joins consecutive results, and the user's text after them, into one message."""
    for users, group in groupby(messages, lambda message: isinstance(message, User)):
        if users:
            yield User(tuple(part for message in group for part in message.parts))
        else:
            yield from group


# ── reading ─────────────────────────────────────────────────────────────────────────────────────


class Reading:
    """A reply being read: text before the first action is passed on line by line."""

    def __init__(self, tools: Sequence[ToolSpec] = (), messages: Sequence[Message] = ()) -> None:
        self._tools, self._messages = tools, messages
        self._text = ""
        self._told = 0
        self._held = False
        self.calls: list[Call] = []

    def add(self, piece: str) -> Iterator[str]:
        """Takes more of the reply and returns what can already be shown."""
        self._text += piece
        if self._held:
            return
        start = self._text.rfind("\n") + 1
        before = self._text.rfind("\n", 0, max(start - 1, 0)) + 1
        action = _ACTION.match(self._text, before) or _ACTION.match(self._text, start)
        if action:
            self._held, ready = True, action.start()
        elif start == 0 and len(self._text) < LABEL:
            return
        else:
            ready = start if _BEGINNING.match(self._text, start) else len(self._text)
        label = _THOUGHT.match(self._text, 0, ready)
        begin = label.end() if label else 0
        if self._told < ready - begin:
            told, self._told = self._told, ready - begin
            yield self._text[begin + told : ready]

    def whole(self, text: str) -> None:
        """The part is complete; a provider may send it without pieces."""
        if text.startswith(self._text) or not self._text:
            self._text = text

    def end(self) -> Iterator[Event]:
        thought, self.calls, answer = read_text_reply(self._text, self._tools, self._messages)
        if thought:
            yield PartDone(Text(thought))
        if answer:
            yield TextDelta(answer)
            yield PartDone(Text(answer))
        for call in self.calls:
            yield PartDone(call)


def read_text_reply(
    text: str, tools: Sequence[ToolSpec] = (), messages: Sequence[Message] = ()
) -> tuple[str, list[Call], str]:
    """A reply's thoughts, calls, and text for the user; one of the last two is empty. An outcome that the
    model made up, and everything after it, is ignored. `tools`: what may be called; `messages`: the
    conversation."""
    made_up = _MADE_UP.search(text)
    text = text[: made_up.start()] if made_up else text
    action = _first_action(text)
    thought, told = _thought(_unfenced(text[: action.start()]) if action else text)
    if action is None:
        if told and thought:  # it thinks and does nothing: a reader cannot tell whether it is done
            return thought, [_unreadable("there is no Action")], ""
        return "", [], thought
    calls: list[Call] = []
    answers = [_fields(message) for message in messages if isinstance(message, Result)]
    results = [_lines(text) for text in m.leaves(answers)]
    while action and len(calls) < MAX_ACTIONS:
        name, rest = action["name"] or "", text[action.end() :]
        if name.casefold() == FINISH.casefold():
            return (thought, calls, "") if calls else (thought, [], _answer(rest, bool(action["open"])))
        known = next((tool for tool in tools if tool.name.casefold() == name.casefold()), None)
        call, length = _call(known.name if known else name, rest, known)
        at = action.end() + length
        source = text[action.start() : at]
        calls.append(_unreadable(f"{QUOTED_CALL} {source}") if _is_quoted(source, results) else call)
        following = _ACTION.search(text, at)
        action = (
            following if following and not text[at : following.start()].strip(_CLOSING + "])）】") else None
        )
    return thought, calls, ""


def _first_action(text: str) -> re.Match[str] | None:
    """The first action outside a code block; if all are inside, the first of them."""
    fences = counted = 0
    for at in _ACTION.finditer(text):
        fences += text.count("```", counted, at.start())
        if not fences % 2:
            return at
        counted = at.start()
    return _ACTION.search(text)


def _is_quoted(source: str, results: Sequence[str]) -> bool:
    """True if an action occurs in a result, written by a tool, a file or a sub-agent."""
    written = _lines(source.strip(_CLOSING))
    return any(written in text for text in results)


def _lines(text: str) -> str:
    return "\n".join(line.strip() for line in text.split("\n"))


def _unfenced(text: str) -> str:
    """The text without the beginning of a code block at its end."""
    return text.rstrip().removesuffix("```") if text.count("```") % 2 else text


def _thought(text: str) -> tuple[str, bool]:
    found = _THOUGHT.match(text.lstrip())
    return (text.lstrip()[found.end() :] if found else text).strip(), found is not None


def _answer(rest: str, bracket: bool) -> str:
    rest = rest.strip().removesuffix("```").rstrip() if rest.count("```") % 2 else rest.strip()
    if bracket and rest[-1:] in ("]", ")", "）", "】"):
        rest = rest[:-1].strip()
    if rest[:1] in ('"', "{"):
        value = _value(rest)[0]
        texts = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else [value]
        if len(texts) == 1 and isinstance(texts[0], str):
            return texts[0]
    return rest


def _call(name: str, rest: str, tool: ToolSpec | None) -> tuple[Call, int]:
    """The call, and the length of its arguments in the text."""
    fence = _FENCE.match(rest)
    skipped = fence.end() if fence else 0
    value, length = _value(rest[skipped:])
    if not isinstance(value, dict):
        value, length = _keywords(rest[skipped:])
    if not isinstance(value, dict) and tool is not None:
        value, length = _only(rest[skipped:], tool)
    if not isinstance(value, dict):
        if not rest.strip(_CLOSING + "[]()") and name:
            return Call(f"call_{random_id()}", name), len(rest)
        return _unreadable(rest.strip() or "there is no tool", name), len(rest)
    fields = cast("dict[str, Any]", value)
    if not name:  # {"tool": …, "arguments": {…}}
        name = next((str(fields[key]) for key in ("tool", "name", "action") if key in fields), "")
        inner = next(
            (fields[key] for key in ("arguments", "args", "input", "parameters") if key in fields), None
        )
        if not name or not isinstance(inner, dict):
            return _unreadable(rest.strip(), name), skipped + length
        fields = cast("dict[str, Any]", inner)
    try:  # a literal of Python may be no JSON: nan, 1j, {1, 2}
        fields = json.loads(json.dumps(fields, allow_nan=False))
    except (ValueError, TypeError, RecursionError):
        return _unreadable(rest.strip(), name), skipped + length
    return Call(f"call_{random_id()}", name, fields), skipped + length


def _value(text: str) -> tuple[Any, int]:
    """The JSON value at the beginning, small errors forgiven, and its length; None if there is none."""
    start = len(text) - len(text.lstrip())
    with suppress(ValueError, RecursionError):
        return json.JSONDecoder(strict=False).raw_decode(text, start)
    body = text[start : _end(text, start)]
    for candidate in (_COMMA.sub(r"\1", body), *(body + "}" * n for n in (1, 2)), body + '"}'):
        with suppress(ValueError, RecursionError):
            return json.loads(candidate, strict=False), start + len(body)
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        return ast.literal_eval(body), start + len(body)  # {'path': 'a.py', 'all': True}
    return None, len(text)


def _keywords(text: str) -> tuple[dict[str, Any] | None, int]:
    """Arguments in the form `path="a.py", limit=3`, and their length; None if they have another form."""
    start = len(text) - len(text.lstrip())
    end = _end(text, start)
    for stop in range(end, min(end + 4, len(text)) + 1):  # a bracket behind them may be the last one's own
        source = f"f({text[start:stop]})"
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            call = ast.parse(source, mode="eval").body
            if isinstance(call, ast.Call) and call.keywords and not call.args:
                lines = source.encode().splitlines()
                given = {each.arg or "": _literal(lines, each.value) for each in call.keywords}
                return given, stop
    return None, len(text)


def _only(text: str, tool: ToolSpec) -> tuple[dict[str, Any] | None, int]:
    """The argument of a call such as `Read[src/a.py]`; None if there is none, or the tool takes more."""
    name = next(iter(tool.parameters.get("required") or tool.parameters.get("properties", {})), "")
    kind = tool.parameters.get("properties", {}).get(name, {}).get("type")
    written = _ONLY.match(text)
    if kind != "string" or written is None:
        return None, len(text)
    return {name: written["text"].strip().strip("\"'")}, written.end()


def _literal(lines: list[bytes], node: ast.expr) -> Any:
    """The value of an argument; an invalid literal (`path=src/a.py`) is a string."""
    if isinstance(node, ast.Name) and node.id in _JSON_WORDS:
        return _JSON_WORDS[node.id]
    with suppress(ValueError):
        return ast.literal_eval(node)
    if node.end_lineno != node.lineno:
        return ast.unparse(node)
    return lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()


def _end(text: str, start: int) -> int:
    """The end of the arguments that begin there: before the next action, without closing brackets."""
    following = _ACTION.search(text, start)
    body = text[start : following.start() if following else len(text)].rstrip(_CLOSING)
    return start + len(body.rstrip("])）】").rstrip() if body.endswith(("]", ")", "）", "】")) else body)


def _unreadable(what: str, name: str = "") -> Call:
    return Call(f"call_{random_id()}", UNREADABLE, raw=f"{name} {what}".strip()[:2_000])


def call_correction(call: Call) -> str | None:
    """How to write an action, for one that could not be read; None if it could."""
    if call.name != UNREADABLE:
        return None
    return (
        f"Your reply could not be read ({m.compact_json((call.raw or '')[:200])}). "
        'Write a thought and one action: Action: Tool[{"argument": "value"}] with the arguments as one JSON '
        f"object (double quotes, line breaks as \\n), or Action: {FINISH}[your answer] when you are done."
    )
