"""A message clipped to a number of tokens (R19): head, end and telling lines stay, and calls as they are.

A clip is computed from the message itself, never from an earlier clip, at a few fixed levels (`LEVELS`), so
the same entry gives the same bytes cold and warm. What is missing is marked with its size and the entry's
number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from refold.messages import (
    AnyPart,
    Assistant,
    Bash,
    Call,
    Content,
    Image,
    Message,
    Result,
    Text,
    Thinking,
    User,
    compact_json,
    is_typed,
)
from refold.protocols import TokenCounter
from refold.session.toolnames import ToolKind
from refold.session.toolstatus import bare_output
from refold.shrink.excerpt import GAP_MARK, GAP_MARK_TOKENS, Texts, clip_text
from refold.shrink.salient import WHOLE_LINE
from refold.text.frames import TAG
from refold.text.plural import counted
from refold.text.redact import redact
from refold.text.truncate import head, level, tail

LEVELS: tuple[int, ...] = tuple(round(24 * 2 ** (step / 4)) for step in range(64))
"""Sizes in tokens that a message may be clipped to, its frame on the wire not counted."""
CLIP_OVERHEAD = 40
"""Tokens that a clipped message has at most beyond its level: wire, names and short arguments of a call."""
WORTH = 32
"""A clip that saves less than this is not made."""
_SHORT = 24
"""Words of at most so many tokens stay: they tell more than a marker."""
_LARGE = 50_000
"""Characters of each end of a text that are looked at, at least, for a quotation."""
_WIDE = 8
"""Characters of a token, at most, where a text is too long to be counted for a quotation."""
_USUAL = 4
"""Characters of a token, as a rule."""


def clip_message(
    message: Message, tokens: int, texts: Texts, *, key: str, kind: ToolKind = "other"
) -> Message:
    """The message in about `tokens` tokens. `key` names its entry, `kind` says what it shows, where it is a
    result; `texts` are those of the message, and may be used again at another level."""
    match message:
        case Assistant():
            return _reply(message, tokens, texts, key)
        case Result() | User():
            typed = [is_typed(message, part) for part in message.content]
            text = _joined(message.content)
            if any(typed) and not all(typed):
                content = _around_typed(message.content, typed, tokens, texts, key)
            elif isinstance(message, User) and f"<{TAG}" in text:
                content = (_frame(text, tokens, texts, key),)
            else:
                content = _with_note(message.content, clip_text(text, tokens, texts, key, kind), key)
            return msgspec.structs.replace(message, content=content)
        case Bash():
            output = clip_text(message.output, tokens, texts, key, "bash")
            return msgspec.structs.replace(message, output=output)
        case _:
            return message


def _reply(message: Assistant, tokens: int, texts: Texts, key: str) -> Assistant:
    """What was said in what the calls leave of the room, then the calls, each as it was made. Thinking is
    dropped: a caller clips only replies whose thinking may be."""
    room = tokens - sum(texts.size(_arguments(call)) for call in message.calls)
    words = clip_text(message.text, max(room, _SHORT), texts, key) if message.text else ""
    others = _named(message.content)
    note = f"[{others}, {key}]" if others else ""
    text = "\n".join(filter(None, (words, note)))
    said = (Text(text),) if text else ()
    return msgspec.structs.replace(message, content=(*said, *message.calls))


def _around_typed(
    parts: Sequence[AnyPart], typed: Sequence[bool], tokens: int, texts: Texts, key: str
) -> Content:
    """The user's words first; what else stands around them shares the rest."""
    sizes = [texts.size(part.text) if isinstance(part, Text) else 0 for part in parts]
    own = [size for size, is_own in zip(sizes, typed, strict=True) if is_own]
    others = [size for size, is_own in zip(sizes, typed, strict=True) if not is_own]
    share_of_own, share = level(own, tokens), level(others, max(tokens - sum(own), 0))
    clipped: list[AnyPart] = []
    for part, size, is_own in zip(parts, sizes, typed, strict=True):
        if not isinstance(part, Text):
            clipped.append(Text(f"[{_named([part])}, {key}]", "program"))
        elif is_own:
            clipped.append(Text(clip_text(part.text, share_of_own, texts, key), part.origin))
        elif size > share + GAP_MARK_TOKENS:
            clipped.append(Text(clip_text(part.text, share, texts, key), part.origin))
        else:
            clipped.append(part)
    return tuple(clipped)


_FRAMED = re.compile(rf"((?s:.{{0,400}}?)<{TAG}[^>\n]{{0,400}}>\n)((?s:.*))(\n</{TAG}>[^<]{{0,400}})")


def _frame(text: str, tokens: int, texts: Texts, key: str) -> Text:
    """A quoted record in the user's role, clipped inside of its frame; one of another shape is only named."""
    framed = _FRAMED.fullmatch(text)
    if framed is None or f"<{TAG}" in framed[2] or f"</{TAG}" in framed[2]:
        return Text(GAP_MARK.format(cut=texts.size(text), key=key), "summary")
    room = tokens - texts.size(framed[1]) - texts.size(framed[3])
    return Text(framed[1] + clip_text(framed[2], max(room, 1), texts, key) + framed[3], "summary")


def _with_note(parts: Sequence[AnyPart], short: str, key: str) -> Content:
    """Parts with a `short` form of their joined texts; what is no text (a picture) goes, and is said."""
    first = next((part for part in parts if isinstance(part, Text)), Text(""))
    others = _named(parts)
    note = f"[{others}, {key}]" if others else ""
    text = "\n".join(filter(None, (short, note)))
    return (msgspec.structs.replace(first, text=text),) if text else ()


def _named(parts: Sequence[AnyPart]) -> str:
    """What is no text, in words: `2 pictures, 1 other part`."""
    others = [part for part in parts if not isinstance(part, (Text, Call, Thinking))]
    pictures = sum(isinstance(part, Image) for part in others)
    counts = ((pictures, "picture"), (len(others) - pictures, "other part"))
    return ", ".join(counted(count, what) for count, what in counts if count)


def _joined(parts: Sequence[AnyPart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _arguments(call: Call) -> str:
    return compact_json(call.arguments) if call.raw is None else call.raw


# ── quotations ──────────────────────────────────────────────────────────────────────────────────


def quotation(
    message: Message,
    key: str,
    tokens: int,
    counter: TokenCounter,
    change: Callable[[Call], str] = lambda _: "",
) -> str:
    """What a message says, to be quoted in a record in about `tokens` tokens (0: all of it): no call to be
    made, so long arguments are cut to head and end. `change` tells an edit as what it changed; any other call
    is empty for it. The user's own words are not quoted: they stand beside the record."""
    quoted = _Quotation(key, counter)
    match message:
        case Assistant():
            who, text = "assistant", quoted.reply(message, tokens, change)
        case Result():
            who, text = "result", quoted.result(message, tokens)
        case _:
            return ""
    return f"{key} {who}: {text}" if text else ""


class _Quotation:
    """Quotes texts of the entry `key`; a room of 0 tokens is for all of a text."""

    def __init__(self, key: str, counter: TokenCounter) -> None:
        self.key, self.counter = key, counter

    def text(self, text: str, tokens: int, kind: ToolKind = "other") -> str:
        if not tokens:
            return text
        most, key = max(_LARGE, _WIDE * tokens), self.key
        if len(text) > 2 * most:  # of megabytes only the ends can be there
            text, key = f"{head(text, most)}\n{tail(text, most)}", ""
        # Half of a secret is not known for what it is: what is cut loses them first.
        return clip_text(redact(text)[0], tokens, Texts(self.counter), key, kind)

    def result(self, message: Result, tokens: int) -> str:
        own = _joined([part for part in message.content if is_typed(message, part)])
        if not own or not tokens:
            return self.text(bare_output(message.text), tokens)
        others = _joined([part for part in message.content if not is_typed(message, part)])
        room = max(tokens - self.counter.text(own), _SHORT)
        return f"{self.text(bare_output(others), room)}\n{own}"  # the user's words stay whole

    def reply(self, message: Assistant, tokens: int, change: Callable[[Call], str]) -> str:
        """What was said, then the calls; half of the room is for these."""
        words = self.text(message.text.strip(), tokens // 2 if message.calls else tokens)
        changes = [change(call) for call in message.calls]
        calls = [
            changed or f"{call.name} {_arguments(call)}"
            for call, changed in zip(message.calls, changes, strict=True)
        ]
        if tokens:
            share = _share(calls, tokens - self.counter.text(words))
            calls = [
                self.text(changed, share, "edit") if changed else self.call(call, share)
                for call, changed in zip(message.calls, changes, strict=True)
            ]
        return "\n".join(filter(None, (words, *calls)))

    def call(self, call: Call, tokens: int) -> str:
        """A call as it is written, its long arguments cut to head and end."""
        if call.raw is not None:
            return f"{call.name} {self.text(call.raw, tokens)}"
        written = {name: compact_json(value) for name, value in call.arguments.items()}
        share = _share([*written.values()], tokens)
        for name, value in call.arguments.items():
            text = value if isinstance(value, str) else written[name]
            if len(text) <= WHOLE_LINE and "\n" not in text:
                continue  # a path, a command
            short = self.text(text, share, "read" if isinstance(value, str) else "other")
            written[name] = compact_json(short) if isinstance(value, str) else short
        rows = [f"{compact_json(name)}:{value}" for name, value in written.items()]
        return f"{call.name} {{{','.join(rows)}}}"


def _share(texts: Sequence[str], tokens: int) -> int:
    """Tokens to which each of some texts is cut for all of them to fit: the short ones stay whole."""
    return max(level([len(text) for text in texts], _USUAL * max(tokens, 0)) // _USUAL, 8)
