"""What goes over the wire: plain frozen values without identity.

A message knows nothing of its place in a conversation; ids, times and usage belong to the entry that
holds it (`refold.entries`). Content is always a tuple of parts, whatever the source looked like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, TypeAlias, cast

import msgspec

from refold.errors import WrongType
from refold.text.frames import without_escapes
from refold.text.lenient_json import dump_json

MAX_PLAIN_NUMBER = 1e30
"""Larger numbers are not rendered as text; Python refuses to write the largest ones."""
Stop = Literal["end", "tool_use", "length", "refusal", "error", "aborted", "other"]
Origin = Literal["typed", "attached", "quoted", "program", "tool", "summary"]
"""Who said a text: the user's own words, a file or selection the user attached, a quotation (pasted mail,
log, diff), a program around the conversation (reminders, IDE context), a tool, a model's summary."""


class Part(msgspec.Struct, frozen=True, gc=False, tag_field="type", omit_defaults=True):
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
    source: str | None = None
    """Dialect and place that it was read from (`anthropic/assistant`): there it is sent unchanged, elsewhere
    it is told as text."""


AnyPart: TypeAlias = Text | Thinking | Image | Call | Opaque
Content: TypeAlias = tuple[AnyPart, ...]


class Usage(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Tokens as the provider counted them. `input` excludes what was read from or written to a cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def prompt(self) -> int:
        """Everything the model read."""
        return self.input + self.cache_read + self.cache_write if self.is_meant else 0

    @property
    def total(self) -> int:
        return self.prompt + self.output if self.is_meant else 0

    @property
    def is_meant(self) -> bool:
        """Can these be numbers of tokens? Nothing is counted on what cannot."""
        smallest = min(self.input, self.output, self.cache_read, self.cache_write)
        return smallest >= 0 and max(self.input, self.output, self.cache_read, self.cache_write) < 2**53


class MessageBase(msgspec.Struct, frozen=True, gc=False, tag_field="role", omit_defaults=True):
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


class Spoken(MessageBase, frozen=True):
    content: Content = ()

    @property
    def parts(self) -> Content:
        return self.content


class User(Spoken, frozen=True, tag="user"):
    role: ClassVar[str] = "user"


class System(Spoken, frozen=True, tag="system"):
    role: ClassVar[str] = "system"


class Assistant(Spoken, frozen=True, tag="assistant"):
    role: ClassVar[str] = "assistant"
    stop: Stop | None = None
    error: str | None = None

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(p for p in self.content if isinstance(p, Call))


class Result(MessageBase, frozen=True, tag="tool"):
    """What a tool answered to the call `call_id`."""

    role: ClassVar[str] = "tool"
    call_id: str
    content: Content = ()
    name: str | None = None
    is_error: bool = False

    @property
    def parts(self) -> Content:
        return self.content


class Bash(MessageBase, frozen=True, tag="bash"):
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
Said: TypeAlias = str | bytes | Iterable[AnyPart | str]
"""What the builders take as content: a string (or its UTF-8 bytes), or parts and strings mixed."""


def content(said: Said) -> Content:
    """Content from a string or from parts; an empty string is no content."""
    if isinstance(said, bytes | bytearray | memoryview):
        try:
            said = bytes(cast("bytes", said)).decode()
        except UnicodeDecodeError:
            raise WrongType("these bytes are not UTF-8 text: decode them, or describe them") from None
    if isinstance(said, str):
        return (Text(said),) if said else ()
    if isinstance(said, Mapping) or not isinstance(cast("object", said), Iterable):
        kind = cast("object", said).__class__.__name__
        raise WrongType(f"expected content, got {kind}: pass a string (such as str(value)), or parts")
    return tuple(Text(p) if isinstance(p, str) else p for p in said)


def text(text: str, origin: Origin | None = None) -> Text:
    """Text that says where it comes from: `user([text(page, "attached"), "Is this right?"])`."""
    return Text(text, origin)


def is_typed(message: Message, part: AnyPart) -> bool:
    """Did the user type this part of a message? In the user's role whatever says nothing else; in a result
    only what is declared so: the words with which a user refused a call."""
    own = (None, "typed") if isinstance(message, User) else ("typed",) if isinstance(message, Result) else ()
    return isinstance(part, Text) and part.origin in own


def spoken(reply: Assistant) -> str:
    """What the model said in a reply. A program may have written the reply, or a part of it: an error, a
    notice."""
    return "\n".join(p.text for p in reply.parts if isinstance(p, Text) and p.origin != "program")


def attached(text: str) -> Text:
    """A file, a selection or a page the user gives along, beside what the user says."""
    return Text(text, "attached")


def quoted(text: str) -> Text:
    """Quoted text in the user's message: a mail, a log, a diff."""
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
        return dump_json(value)


def arguments_json(call: Call) -> str:
    """The arguments as the provider expects them: a JSON text."""
    return call.raw if call.raw is not None else compact_json(call.arguments)


# ── what a message says ─────────────────────────────────────────────────────────────────────────
# `message.text` is what was written. Two more answers follow; another one belongs here too.


def searchable(message: Message, *, keys: bool = False) -> str:
    """Everything that words can be found in: text, thinking, names and argument values of calls; with `keys`
    the names of the arguments too."""
    if isinstance(message, Bash):
        return without_escapes(message.text)
    return without_escapes("\n".join(text for part in message.parts for text in _strings(part, keys)))


def in_full(message: Message, *, thoughts: bool = True) -> str:
    """The whole message for a reader, arguments of calls included, pictures by their name."""
    told = (_told(part) for part in message.parts if thoughts or not isinstance(part, Thinking))
    return "\n".join(filter(None, told))


def argument_text(call: Call) -> str:
    """The values of a call's arguments, as the tool gets them (not as JSON writes them)."""
    return call.raw if call.raw is not None else "\n".join(leaves(call.arguments))


def brief(message: Message) -> tuple[str, str]:
    """Who, and what in short: the text, or the tools that are called."""
    return message.role, message.text or ", ".join(call.name for call in message.calls)


def leaves(value: Any, *, keys: bool = False) -> Iterator[str]:
    """The strings and numbers inside a JSON value of any depth, in order; with `keys` also those of its
    objects."""
    left: list[Any] = [value]
    while left:
        item = left.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            pairs = reversed(list(cast("Mapping[str, Any]", item).items()))
            left.extend(each for key, inner in pairs for each in ((inner, key) if keys else (inner,)))
        elif isinstance(item, list | tuple):
            left.extend(reversed(cast("list[Any]", item)))
        elif isinstance(item, int | float) and not isinstance(item, bool) and abs(item) < MAX_PLAIN_NUMBER:
            yield str(item)


def _strings(part: AnyPart, keys: bool) -> Iterator[str]:
    match part:
        case Text(text=text) | Thinking(text=text):
            if text:
                yield text
        case Call(name=name, raw=raw):
            yield name
            if raw is not None:
                yield raw
            else:
                yield from leaves(part.arguments, keys=keys)
        case Opaque(raw=raw):
            yield from leaves(raw, keys=keys)
        case Image():
            pass


def _told(part: AnyPart) -> str:
    match part:
        case Text(text=text):
            return text
        case Thinking(text=text):
            return f"(thinking) {text}" if text else ""
        case Call():
            return f"{part.name}({_told_arguments(part)})"
        case Image(media_type=kind, url=url):
            return f"(picture: {url or kind})"
        case Opaque(raw=raw):
            return compact_json(raw)


def _told_arguments(call: Call) -> str:
    """On one line while they are short; long or many-lined texts as they are, below each other."""
    if call.raw is not None:
        return call.raw
    shown = {name: v if isinstance(v, str) else compact_json(v) for name, v in call.arguments.items()}
    if all("\n" not in text and len(text) <= 120 for text in shown.values()):
        return ", ".join(f"{name}={text}" for name, text in shown.items())
    return "\n" + "\n".join(f"{name}: {text}" for name, text in shown.items()) + "\n"
