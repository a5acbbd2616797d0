"""Counts by vocabulary, through splintr, whose vocabularies are bundled: nothing is downloaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Protocol

from refold.messages import AnyPart, Bash, Call, Image, Message, Result, Text, Thinking
from refold.protocols import TokenCounter
from refold.tokens import images, parts
from refold.tokens.estimate import Bytes4

_SAME = (
    "gpt-oss", "llama3", "llama2", "codellama", "deepseek_v3", "qwen3", "glm4", "kimi_k2", "kimi_k3", "phi4",
    "olmo2", "mistral_v1", "mistral_v2", "mistral_v3",
)  # fmt: skip
VOCABULARIES = {"o200k": "o200k_base", "cl100k": "cl100k_base", **{name: name for name in _SAME}}
"""Our names and splintr's."""

PER_MESSAGE = 4
"""Role and delimiters around each message."""
PER_RESULT = 12
"""What marks the answer of a tool, beyond that. Providers do not document it; with these two figures the
predicted sizes of real requests (M7) err least, and chat templates of open models need as many."""
PER_CALL = Bytes4.call
"""What marks a tool call beyond its name and arguments."""
PER_TOOL = 8

_CHUNK = 65_536
"""Longest text given to the tokenizer at once, so that a megabyte without white space stays linear."""
_SPECIAL = "<|"
"""How the marks of special tokens begin in most vocabularies."""
_SEAM = re.compile(r"[A-Za-z](?= [A-Za-z])")
"""Between two words: no vocabulary has a token that reaches across it, so cutting there changes no count."""


class Vocabulary(Protocol):
    def encode_ordinary(self, text: str, /) -> Sequence[int]: ...
    def encode_flat(self, text: str, /) -> bytes:
        """Four bytes a token; faster, but the marks of special tokens become such."""
        ...

    def special_tokens(self) -> Mapping[str, int]: ...


class Exact:
    """A vocabulary, and the wire's framing around messages as OpenAI documents it."""

    exact: ClassVar[bool] = True
    additive: ClassVar[bool] = True

    def __init__(self, name: str, load: Callable[[], Vocabulary], picture: Callable[[Image], int]) -> None:
        self.name = name
        self._load = load
        self._picture = picture

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        """Loaded, table of merges included, with the first text that is counted: that takes a third of a
        second, and a view that fits by its bytes alone never needs it."""
        vocabulary = self._load()
        vocabulary.encode_ordinary("xqzptlk")  # no token: the table of merges is made
        return vocabulary

    @cached_property
    def _flat(self) -> Callable[[str], bytes]:
        return self._vocabulary.encode_flat

    @cached_property
    def _encode(self) -> Callable[[str], Sequence[int]]:
        return self._vocabulary.encode_ordinary

    @cached_property
    def _plain(self) -> bool:
        """All marks of special tokens begin with `_SPECIAL`, which nearly no text has."""
        return all(mark.startswith(_SPECIAL) for mark in self._vocabulary.special_tokens())

    @cached_property
    def _boundary(self) -> int:
        """Some vocabularies put markers around every text; they are no part of it."""
        return len(self._encode(""))

    def text(self, text: str) -> int:
        if not text:
            return 0
        if len(text) <= _CHUNK:
            return self._count(text)
        return sum(self._count(piece) for piece in text_chunks(text))

    def message(self, message: Message) -> int:
        if isinstance(message, Bash):
            return 0 if message.hidden else PER_MESSAGE + self.text(message.text)
        frame = PER_MESSAGE + (PER_RESULT if isinstance(message, Result) else 0)
        for part in message.parts:
            frame += self.text(part.text) if type(part) is Text else self._part(part)
        return frame

    def _part(self, part: AnyPart) -> int:
        if isinstance(part, Image):
            return self._picture(part)
        if isinstance(part, Thinking) and part.data:
            return parts.sealed(part.data) + self.text(part.text)  # a summary is sent beside it
        size = sum(self.text(text) for text in parts.part_strings(part))
        size += sum(map(self._picture, parts.part_images(part)))
        return size + PER_CALL if isinstance(part, Call) else size

    def tools(self, tools: Sequence[Any]) -> int:
        return sum(PER_TOOL + self.text(text) for text in parts.tools_text(tools))

    def _count(self, text: str) -> int:
        if not text.isascii():
            # A copy: Python keeps the UTF-8 form, which the tokenizer asks for, with the text for good.
            text = text.encode("utf-8", "replace").decode()
        if self._plain and _SPECIAL not in text:
            return len(self._flat(text)) // 4
        return len(self._encode(text)) - self._boundary


def text_chunks(text: str) -> Iterator[str]:
    """The text in pieces of at most `_CHUNK` characters, cut between words where there are any."""
    at = 0
    while len(text) - at > _CHUNK:
        start, end = at + _CHUNK - 2048, at + _CHUNK
        seam = max((found.end() for found in _SEAM.finditer(text, start, end)), default=end)
        yield text[at:seam]
        at = seam
    yield text[at:]


@lru_cache(maxsize=64)
def vocabulary_counter(vocabulary: str, pictures: str = "openai") -> TokenCounter:
    """The counter of one of `VOCABULARIES`, or an estimate that says it is one."""
    try:
        from splintr import Tokenizer
    except ImportError:
        return Bytes4(f"bytes4 (instead of {vocabulary})")
    name = vocabulary if pictures == "openai" else f"{vocabulary}@{pictures}"
    rule = images.anthropic if pictures == "anthropic" else images.openai
    return Exact(name, lambda: Tokenizer.from_pretrained(VOCABULARIES[vocabulary]), rule)
