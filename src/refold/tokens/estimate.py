"""Estimates without a vocabulary, as used by well-known agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from refold.messages import Bash, Call, Image, Message, Text, Thinking
from refold.tokens import images, parts


class Estimate:
    """Counts texts by a rule; a message counts as the sum of its texts."""

    exact: ClassVar[bool] = False
    name: str

    def text(self, text: str) -> int:
        raise NotImplementedError

    def message(self, message: Message) -> int:
        return sum(self.text(text) for text in parts.strings(message))

    def tools(self, tools: Sequence[Any]) -> int:
        return sum(self.text(text) for text in parts.tools_text(tools))


class Bytes4(Estimate):
    """UTF-8 bytes / 4, rounded up: within a few per cent for Chinese, where characters / 4 is far too low. At
    least a quarter of the exact count, as no token is shorter than a byte."""

    framing: ClassVar[int] = 4
    call: ClassVar[int] = 22
    """Tokens that mark a call; short calls are little else."""

    def __init__(self, name: str = "bytes4") -> None:
        self.name = name

    def text(self, text: str) -> int:
        return (utf8_length(text) + 3) // 4

    def message(self, message: Message) -> int:
        if isinstance(message, Bash):
            return 0 if message.hidden else self.framing + self.text(message.text)
        size = whole = 0
        for part in message.content:
            if type(part) is Text:  # nearly all of them: a cold start counts a whole log this way
                size += len(part.text) if part.text.isascii() else utf8_length(part.text)
            elif isinstance(part, Image):
                whole += images.openai(part)
            elif isinstance(part, Thinking) and part.data:
                whole += parts.sealed(part.data)
                size += utf8_length(part.text)
            else:
                size += sum(utf8_length(text) for text in parts.part_strings(part))
                whole += sum(map(images.openai, parts.part_images(part)))
                whole += self.call if isinstance(part, Call) else 0
        return (size + 3) // 4 + whole + self.framing

    def tools(self, tools: Sequence[Any]) -> int:
        return sum(self.text(text) + self.framing for text in parts.tools_text(tools))


class Utf16(Estimate):
    """pi's estimate (B7): UTF-16 units / 4, rounded up once per message; 1200 for a picture.

    A bash execution counts command and output, shown to the model or not, as in pi.
    """

    name = "utf16/4"
    picture: ClassVar[int] = 4800
    """In UTF-16 units."""

    def text(self, text: str) -> int:
        return (utf16_length(text) + 3) // 4

    def message(self, message: Message) -> int:
        if isinstance(message, Bash):
            return (utf16_length(message.command) + utf16_length(message.output) + 3) // 4
        units = sum(utf16_length(text) for text in parts.strings(message))
        units += sum(4 * images.pdf(image) or self.picture for image in parts.images(message))
        return (units + 3) // 4


class Chars(Estimate):
    """Characters of all text, including tool names and arguments as compact JSON."""

    name = "chars"

    def text(self, text: str) -> int:
        return len(text)


class Len3(Estimate):
    """Characters // 3."""

    name = "len//3"

    def text(self, text: str) -> int:
        return len(text) // 3

    def message(self, message: Message) -> int:
        return sum(len(text) for text in parts.strings(message)) // 3


class Messages(Estimate):
    """Counts messages: one each; text and tools count nothing."""

    name = "messages"

    def text(self, text: str) -> int:
        return 1 if text else 0

    def message(self, message: Message) -> int:
        return 0 if isinstance(message, Bash) and message.hidden else 1

    def tools(self, tools: Sequence[Any]) -> int:
        del tools
        return 0


def utf16_length(text: str) -> int:
    """Length as in JavaScript."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
