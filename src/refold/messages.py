"""What goes over the wire: plain frozen values without identity.

A message knows nothing of its place in a conversation; ids, times and usage belong to the entry that
holds it (`refold.entries`). Content is always a tuple of parts, whatever the source looked like.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from refold.text.lenient_json import dump_hostile

Stop = Literal["end", "tool_use", "length", "refusal", "error", "aborted", "other"]
Origin = Literal["typed", "attached", "quoted", "program", "tool", "summary"]
"""Who said a text: the user's own words, a file or selection the user attached, a quotation (pasted mail,
log, diff), a program around the conversation (reminders, IDE context), a tool, a model's summary."""


class Part(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """One piece of a message's content."""


class Text(Part, frozen=True, tag="text"):
    text: str
    origin: Origin | None = None
    """None: what its place says. In a user message that is `typed`, in a result `tool`."""


class Thinking(Part, frozen=True, tag="thinking"):
    """Reasoning of the model. `signature` and `data` are opaque and only valid unchanged."""

    text: str = ""
    signature: str | None = None
    data: str | None = None
    """Encrypted payload: Anthropic's redacted thinking, OpenAI's encrypted reasoning."""
    id: str | None = None


class Image(Part, frozen=True, tag="image"):
    """A picture, inline (`data`, base64) or by reference (`url`)."""

    media_type: str = "image/png"
    data: str | None = None
    url: str | None = None


class Call(Part, frozen=True, tag="call"):
    """A tool call. `raw` holds the arguments where they were not a JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None


class Opaque(Part, frozen=True, tag="opaque"):
    """A content part of a kind we do not know, kept as it came."""

    raw: dict[str, Any]


AnyPart: TypeAlias = Text | Thinking | Image | Call | Opaque
Content: TypeAlias = tuple[AnyPart, ...]


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens as the provider counted them. `input` excludes what was read from or written to a cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def prompt(self) -> int:
        """Everything the model read."""
        return self.input + self.cache_read + self.cache_write

    @property
    def total(self) -> int:
        return self.prompt + self.output


class Base(msgspec.Struct, frozen=True, tag_field="role", omit_defaults=True):
    role: ClassVar[str]

    @property
    def text(self) -> str:
        """The readable text, parts joined by newlines."""
        return "\n".join(p.text for p in self.parts if isinstance(p, Text))

    @property
    def parts(self) -> Content:
        return ()

    @property
    def calls(self) -> tuple[Call, ...]:
        return ()


class User(Base, frozen=True, tag="user"):
    role: ClassVar[str] = "user"
    content: Content = ()

    @property
    def parts(self) -> Content:
        return self.content


class Assistant(Base, frozen=True, tag="assistant"):
    role: ClassVar[str] = "assistant"
    content: Content = ()
    stop: Stop | None = None
    error: str | None = None

    @property
    def parts(self) -> Content:
        return self.content

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(p for p in self.content if isinstance(p, Call))


class Result(Base, frozen=True, tag="tool"):
    """What a tool answered to the call `call_id`."""

    role: ClassVar[str] = "tool"
    call_id: str
    content: Content = ()
    name: str | None = None
    is_error: bool = False

    @property
    def parts(self) -> Content:
        return self.content


class System(Base, frozen=True, tag="system"):
    role: ClassVar[str] = "system"
    content: Content = ()

    @property
    def parts(self) -> Content:
        return self.content


class Bash(Base, frozen=True, tag="bash"):
    """A shell command the user ran inside the conversation; the model sees it as user text."""

    role: ClassVar[str] = "bash"
    command: str
    output: str = ""
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    hidden: bool = False
    """Run without showing it to the model."""

    @property
    def text(self) -> str:
        lines = [f"$ {self.command}", self.output.rstrip("\n")]
        if self.cancelled:
            lines.append("(cancelled)")
        elif self.exit_code:
            lines.append(f"(exit {self.exit_code})")
        if self.truncated:
            lines.append("(output truncated)")
        return "\n".join(line for line in lines if line)

    @property
    def parts(self) -> Content:
        return (Text(self.text),)


Message: TypeAlias = User | Assistant | Result | System | Bash
Said: TypeAlias = str | Iterable[AnyPart | str]
"""What the builders take as content: a string, or parts and strings mixed."""


def content(said: Said) -> Content:
    """Content from a string or from parts; an empty string is no content."""
    if isinstance(said, str):
        return (Text(said),) if said else ()
    return tuple(Text(p) if isinstance(p, str) else p for p in said)


def text(text: str, origin: Origin | None = None) -> Text:
    """Text that says where it comes from: `user([text(page, "attached"), "Is this right?"])`."""
    return Text(text, origin)


def attached(text: str) -> Text:
    """A file, a selection or a page the user gives along, beside what the user says."""
    return Text(text, "attached")


def quoted(text: str) -> Text:
    """Somebody else's words in the user's message: a mail, a log, a diff."""
    return Text(text, "quoted")


def with_origin(origin: Origin, parts: Iterable[AnyPart]) -> Content:
    """The parts, with this origin wherever a text declares none."""
    return tuple(
        msgspec.structs.replace(part, origin=origin)
        if isinstance(part, Text) and part.origin is None
        else part
        for part in parts
    )


def user(said: Said = "") -> User:
    return User(content(said))


def system(said: Said = "") -> System:
    return System(content(said))


def assistant(said: Said = "", *calls: Call, stop: Stop | None = None) -> Assistant:
    """A reply: `assistant("Let me look.", call("c1", "Read", path="a.py"))`."""
    return Assistant((*content(said), *calls), stop=stop or ("tool_use" if calls else "end"))


def call(id: str, name: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> Call:
    return Call(id, name, {**(arguments or {}), **more})


def result(call_id: str, said: Said = "", *, name: str | None = None, is_error: bool = False) -> Result:
    return Result(call_id, content(said), name, is_error)


def thinking(text: str, signature: str | None = None) -> Thinking:
    return Thinking(text, signature)


def image(data: str, media_type: str = "image/png") -> Image:
    return Image(media_type, data=data)


def compact_json(value: Any) -> str:
    """JSON without spaces, keys in their order: the form arguments are counted and sent in."""
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError, ValueError, RecursionError):
        return dump_hostile(value)


def arguments_json(call: Call) -> str:
    """The arguments as the provider expects them: a JSON text."""
    return call.raw if call.raw is not None else compact_json(call.arguments)


def fingerprint(message: Message) -> str:
    """Hash of what a message says. Equal for a message and its copy that came back from a framework:
    stop reasons, error texts, origins and empty text parts do not count."""
    parts = [p for p in message.parts if not (isinstance(p, Text) and not p.text)]
    body: list[Any] = [message.role, [_identity(p) for p in parts]]
    if isinstance(message, Result):
        body.append(message.call_id)
    return hashlib.blake2b(compact_json(body).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _identity(part: AnyPart) -> Any:
    if isinstance(part, Call):
        return [part.id, part.name, part.arguments if part.raw is None else part.raw]
    if isinstance(part, Text):
        return ["text", part.text]
    # Not `to_builtins`: it leaves out a default only where it is the very same object.
    return [part.__struct_config__.tag, *msgspec.structs.astuple(part)]
