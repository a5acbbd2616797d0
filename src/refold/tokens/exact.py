"""Exact counts through splintr, whose vocabularies are bundled: nothing is downloaded."""

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
"""Our names → splintr's names."""

PER_MESSAGE = 4
"""Tokens for role and delimiters of a message."""
PER_RESULT = 12
"""Additional tokens that mark a tool result. Undocumented by providers; with this and `PER_CALL` the
predicted sizes of real requests (M7) are closest, and chat templates of open models need as many."""
PER_CALL = Bytes4.call
"""Tokens that mark a call, beyond its name and arguments."""
PER_TOOL = 8

_CHUNK = 65_536
"""Longest text passed to the tokenizer at once, which keeps a megabyte without white space linear."""
_SPECIAL = "<|"
"""Start of special-token marks in most vocabularies."""
_SEAM = re.compile(r"[A-Za-z](?= [A-Za-z])")
"""A boundary between words that no token crosses, so that cutting there changes no count."""


class Vocabulary(Protocol):
    def encode_ordinary(self, text: str, /) -> Sequence[int]: ...
    def encode_flat(self, text: str, /) -> bytes:
        """Four bytes per token; faster, but treats marks of special tokens as special."""
        ...

    def special_tokens(self) -> Mapping[str, int]: ...


class Exact:
    """A vocabulary, with framing of messages as documented by OpenAI."""

    exact: ClassVar[bool] = True
    additive: ClassVar[bool] = True

    def __init__(self, name: str, load: Callable[[], Vocabulary], picture: Callable[[Image], int]) -> None:
        self.name = name
        self._load = load
        self._picture = picture

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        """Loaded with the first text that is counted: it takes a third of a second, and a view that fits by
        its bytes alone never needs it."""
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
        """Whether all marks of special tokens start with `_SPECIAL`, which is rare in text."""
        return all(mark.startswith(_SPECIAL) for mark in self._vocabulary.special_tokens())

    @cached_property
    def _boundary(self) -> int:
        """Markers that some vocabularies put around every text; not counted."""
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
    """The text in pieces of at most `_CHUNK` characters, cut between words if possible."""
    at = 0
    while len(text) - at > _CHUNK:
        start, end = at + _CHUNK - 2048, at + _CHUNK
        seam = max((found.end() for found in _SEAM.finditer(text, start, end)), default=end)
        yield text[at:seam]
        at = seam
    yield text[at:]


@lru_cache(maxsize=64)
def vocabulary_counter(vocabulary: str, pictures: str = "openai") -> TokenCounter:
    """The counter for one of `VOCABULARIES`, or an estimate named as such."""
    try:
        from splintr import Tokenizer
    except ImportError:
        return Bytes4(f"bytes4 (instead of {vocabulary})")
    name = vocabulary if pictures == "openai" else f"{vocabulary}@{pictures}"
    rule = images.anthropic if pictures == "anthropic" else images.openai
    return Exact(name, lambda: Tokenizer.from_pretrained(VOCABULARIES[vocabulary]), rule)
