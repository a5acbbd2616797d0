"""Tools, their results (E4), and the context they run in.

    table = tools.tools_by_name()                  # name → tool
    envelope = await call_tool(table, call, context) # never raises for a model's arguments
    session.append(envelope.result(call))

A tool is a function of its arguments (a struct, whose fields are the JSON schema that a model sees) and of a
`ToolContext`. It raises `ToolRefused` for what it cannot do.
"""

from __future__ import annotations

import asyncio
import difflib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import (
    Any,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    get_type_hints,
    runtime_checkable,
)

import msgspec

from refold import messages as m
from refold.messages import Call, Result, compact_json
from refold.protocols import ToolSpec
from refold.text.truncate import one_line
from refold.tools.git_guard import GitGuard
from refold.tools.workspace import ToolRefused, Workspace

_MISSING = re.compile(r"Object missing required field (`\w+`)")
Effect: TypeAlias = Literal["read", "edit", "run", "call", "none"]
"""What a call does: reads files · changes them · runs a command · calls a server · nothing outside itself."""
Status: TypeAlias = Literal["success", "partial", "error"]


class ToolFault(msgspec.Struct, frozen=True):
    """An error: a code for programs and a sentence that the model can act on."""

    code: str
    message: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a tool. `shrink` keeps status, data by the tool's rule and the error; the rest is
    dropped after the turn."""

    status: Status
    data: dict[str, Any] = {}
    text: str = ""
    """A sentence on what the data does not say."""
    error: ToolFault | None = None
    stats: dict[str, Any] = {}
    context: dict[str, Any] = {}

    def to_text(self) -> str:
        """The text of the tool result: one line of JSON."""
        return compact_json(msgspec.to_builtins(self))

    def result(self, call: Call) -> Result:
        """The message that answers a call."""
        return m.result(call.id, self.to_text(), name=call.name, is_error=self.status == "error")


def success(data: dict[str, Any], text: str = "", **context: Any) -> Envelope:
    """A complete result; `partial` if the data is marked as `truncated`."""
    status: Status = "partial" if data.get("truncated") else "success"
    return Envelope(status=status, data=data, text=text, context=context)


def failure(code: str, message: str) -> Envelope:
    return Envelope(status="error", error=ToolFault(code, message))


@dataclass
class ToolContext:
    """Where tools run, and how they ask for permission."""

    workspace: Workspace
    recall: Callable[[Mapping[str, Any]], str] | None = None
    """Answers a call of `recall_conversation`; may be slow, and is called in a thread."""
    task: Callable[[str, str], Awaitable[str]] | None = None
    """Runs a sub-agent on (description, prompt) and returns its final answer."""
    compact: Callable[[str], Awaitable[str]] | None = None
    """Requests a fold before the next request, with these instructions."""
    unconfined: bool = False
    """True if the user allowed this call to run without a sandbox."""
    network: bool = False
    variables: tuple[str, ...] = ()
    """Further variables of the user that commands may see."""
    scratch: Path | None = None
    """Folder for what commands write outside the workspace; created on first use."""
    git_guard: GitGuard | None = None
    """Knows what git would run later; created on first use."""
    output: Callable[[str], None] | None = None
    """Receives a command's output while it runs. Set for one call."""
    approve: Callable[[str], Awaitable[bool]] | None = None
    """Asks the user whether a change that a command made may stay. Set for one call."""


@runtime_checkable
class Tool(Protocol):
    """A tool that the model may call."""

    @property
    def spec(self) -> ToolSpec: ...

    @property
    def effect(self) -> Effect: ...

    async def run(self, arguments: Mapping[str, Any], place: ToolContext) -> Envelope:
        """Runs the tool; raises only `ToolRefused` for a model's arguments."""
        ...


A = TypeVar("A", bound=msgspec.Struct)


Act: TypeAlias = Callable[[A, ToolContext], Envelope | Awaitable[Envelope]]


class BuiltIn(Generic[A]):
    """A built-in tool: a function of checked arguments. A plain function runs in a thread."""

    def __init__(self, name: str, act: Act[A], effect: Effect) -> None:
        self._arguments: type[A] = get_type_hints(act)["arguments"]
        description = " ".join((act.__doc__ or "").split())
        self.spec = ToolSpec(name, description, schema(self._arguments))
        self.effect: Effect = effect
        self._act = act

    async def run(self, arguments: Mapping[str, Any], place: ToolContext) -> Envelope:
        checked = checked_arguments(self.spec, self._arguments, arguments)
        if inspect.iscoroutinefunction(self._act):
            return await cast("Awaitable[Envelope]", self._act(checked, place))
        return cast("Envelope", await asyncio.to_thread(self._act, checked, place))


def tool(name: str, effect: Effect = "none") -> Callable[[Act[A]], BuiltIn[A]]:
    """Makes a tool from a function, whose docstring is the description for the model."""
    return lambda act: BuiltIn(name, act, effect)


def as_word(text: str) -> str:
    """A text as an argument of a program; refused if it contains NUL or a lone surrogate."""
    if "\0" in text or any("\ud800" <= char <= "\udbff" or "\udc00" <= char <= "\udc7f" for char in text):
        raise ToolRefused("invalid_arguments", f"{text[:60]!r} cannot be given to a program.")
    return text


async def call_tool(tools: Mapping[str, Tool], call: Call, place: ToolContext) -> Envelope:
    """The result of a model's call, whatever its arguments. Only cancellation is raised."""
    tool = tools.get(call.name)
    if tool is None:
        return failure("unknown_tool", _unknown("tool", call.name, tools))
    if call.raw is not None:
        return failure(
            "invalid_arguments",
            f"The arguments of {call.name} are not a JSON object: {one_line(call.raw, 200)!r}. "
            f"Send the call again with an object such as {example(tool.spec)}.",
        )
    try:
        return await tool.run(call.arguments, place)
    except ToolRefused as refused:
        return failure(refused.code, refused.message)
    except OSError as error:
        return failure("io", f"{call.name} failed: {error.strerror or error}.")


# ── arguments ───────────────────────────────────────────────────────────────────────────────────


def schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a struct without references, titles and nulls: all providers accept it."""
    (top,), parts = msgspec.json.schema_components((arguments,), ref_template="{name}")
    return cast("dict[str, Any]", _plain(top, parts))


def _plain(value: Any, parts: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_plain(item, parts) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    if "$ref" in fields:
        return _plain(parts[fields["$ref"]], parts)
    if "anyOf" in fields:
        others = [item for item in fields["anyOf"] if item != {"type": "null"}]
        fields = {**fields, **others[0]}
    dropped = ("title", "anyOf", "default")
    return {
        name: {key: _plain(item, parts) for key, item in inner.items()}
        if name == "properties"
        else _plain(inner, parts)
        for name, inner in fields.items()
        if name not in dropped
    }


def checked_arguments(spec: ToolSpec, arguments: type[A], given: Mapping[str, Any]) -> A:
    """The arguments as a struct; quoted numbers are converted, nulls are omitted."""
    known = tuple(cast("dict[str, Any]", spec.parameters["properties"]))
    for name in given:
        if name not in known:
            raise ToolRefused("invalid_arguments", _unknown(f"argument of {spec.name}", name, known))
    present = {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(present, arguments, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        what, _, where = str(error).partition(" - at `$")
        what = _MISSING.sub(r"\1 is missing", what)
        within = f" in `{where.strip('.`')}`" if where.strip(".`") else ""
        raise ToolRefused(
            "invalid_arguments", f"{spec.name}: {what}{within}. It takes {example(spec)}."
        ) from None


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in names], 1, 0.5)
    hint = next((f" Did you mean `{each}`?" for each in names if near and each.lower() == near[0]), "")
    return f"There is no {what} called `{one_line(name, 60)}`.{hint} There are: {', '.join(names)}."


def example(spec: ToolSpec) -> str:
    """The arguments of a tool: `{"path": string, "todos"?: [{"content": string}]}`"""
    return _shape({"type": "object", "properties": {}, **spec.parameters})


def _shape(schema: Mapping[str, Any]) -> str:
    """A JSON schema in readable form."""
    if "enum" in schema:
        return " | ".join(map(compact_json, schema["enum"]))
    if "items" in schema:
        return f"[{_shape(schema['items'])}]"
    if "properties" not in schema:
        return str(schema.get("type", "any"))
    required = schema.get("required", ())
    fields = cast("dict[str, dict[str, Any]]", schema["properties"])
    shown = [f'"{name}"{"" if name in required else "?"}: {_shape(field)}' for name, field in fields.items()]
    return "{" + ", ".join(shown) + "}"
