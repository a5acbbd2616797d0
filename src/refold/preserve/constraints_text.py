"""What of a user message the user said in his own words, sentence by sentence.

Pasted code, logs, quotations and the frames that agents inject are blanked out before anything is judged;
positions stay the same, so that what is kept can be quoted verbatim.
"""
# ruff: noqa: E501 (patterns: an alternative a line reads better than wrapped ones)

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from refold.preserve.lazy import lazy

Sort: TypeAlias = Literal["forbid", "require", "prefer"]

LIMIT = 200_000
"""Characters of one message that are looked at. Longer ones are pasted material: their two ends are read."""
_LONGEST_JUDGED = 1_200
"""What has no full stop for longer than this is judged in pieces."""
LONGEST = 400
"""A sentence longer than this is narrowed to the clauses around what was found."""


_MOST_FRAMES = 2_000


class Sentence(msgspec.Struct, frozen=True):
    text: str
    """Verbatim."""
    own: str
    """The same with quotations and code blanked: what may be judged."""
    listed: bool = False
    """An item of a list that was introduced as rules."""


class Verdict(msgspec.Struct, frozen=True):
    """What a sentence demands. `at` is where the words stand that say so."""

    sort: Sort
    strength: float
    at: int


_OWN_WORDS = (
    "user_query",
    "user_request",
    "user_message",
    "user",
    "request",
    "task",
    "prompt",
    "query",
    "question",
)
_FRAME = lazy(r"<([A-Za-z][\w:-]{1,60})(?:\s[^<>\n]{0,300})?>")
_FENCE = lazy(r"^[ \t]*(```+|~~~+)", re.M)
_IDE = lazy(
    r"^# Context from my IDE setup:\n(?s:.*?)(?=^## My request for \w+:?|\Z)|^## My request for \w+:?", re.M
)
_CAVEAT = lazy(
    r"^(?:Caveat: The messages below were generated|\[Request interrupted by user|This session is being continued from"
    r"|\[Image: |\[Pasted text|Contents of /).*$",
    re.M,
)
_PASTED = lazy(
    r"""^(?:
      [ \t]{0,40}>.*                                             # quotation
    | [ \t]{0,40}(?:\$|➜|❯|%|\#!|>>>|\.\.\.)[ ].*                 # a prompt and its command
    | [ \t]{0,40}at[ ].{0,300}:\d+.*                             # stack frames
    | [ \t]{0,40}File[ ]".{0,300}",[ ]line[ ]\d.*
    | Traceback[ ].*
    | [ \t]{0,40}\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d.*               # log lines
    | [ \t]{0,40}\[?\d\d:\d\d:\d\d.*
    | [ \t]{0,40}\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL|CRITICAL)\b\]?[:\s\[].*
    | [ \t]{0,40}[\w.]{0,80}(?:Error|Exception|Warning)(?:\s\[\w+\])?:[ ].*
    | (?:npm|yarn|pnpm|error|warning|fatal|panic|E)(?:\[\w+\])?(?:[ ](?:ERR!|WARN|error))?:[ ].*
    | [ \t]{0,40}[+-]?[ \t]{0,40}\d+[ ]{1,4}[|│+-].*                  # numbered diff lines
    | (?:diff[ ]--git|index[ ][0-9a-f]{6,}|@@[ ]|\+\+\+[ ]|---[ ]\S).*
    | [ \t]{0,40}(?:import[ ][\w{*"']\S*(?:[ ](?:as|from)[ ].*)?;?|from[ ]\S+[ ]import[ ].*|(?:export[ ])?(?:const|let|var)[ ]\S+[ ]?=.*)
    | [ \t]{0,40}(?:async[ ])?(?:def|function)[ ]\w*\(.*|[ \t]{0,40}(?:export[ ])?class[ ]\w+[ ]?[:({].*|[ \t]{0,40}\#include[ ].*
    | .{0,300}[{}][ \t]{0,40}
    | .{0,300}[=()].{0,200};[ \t]{0,40}
    | [ \t]{0,40}[\w.$]{1,80}\([^)\n]{0,200}\)[;:]?[ \t]{0,40}
    | \t.*[=(){}\[\];].*
    | [ \t]{0,40}[\[{]["\[{].*                                   # JSON
    | [^\n]{0,2000}"\w{1,60}":[ ]?["{\[\d].*
    )$""",
    re.M | re.X,
)
_QUOTED = lazy(
    r"`[^`\n]{1,300}`|\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|「[^」\n]{1,300}」|『[^』\n]{1,300}』|(?<![\w])'[^'\n]{2,200}'(?!\w)|‘[^’\n]{2,200}’(?!\w)"
)
_END = lazy(r"[.!?…](?=[\s\"'”’)\]]|$)[\"'”’)\]]*|[。！？]+[”」』]?|\n+|(?<=[\u4e00-\u9fff])[!?](?=\S)")
_ABBREVIATION = lazy(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|incl|resp|Mr|Mrs|Dr|St|no|nr|fig|ca|a\.k\.a|w\.r\.t)|(?<=\s)[A-HJ-Z])\.$",
    re.I,
)
_BULLET = lazy(
    r"[ \t]*(?:[-*•·–]|\d{1,2}[.)、]|[(（]?[a-z\d][)）]|[一二三四五六七八九十]+、|[①-⑩])[ \t]*(?:\[[ xX]\][ \t]*)?"
)
_RULES = lazy(
    r"\b(?:rules?|constraints?|requirements?|guidelines?|conventions?|restrictions?|don'?ts?|do not|must(?: not)?|never|always"
    r"|preferences?|ground rules|limits?|hard limits|things to avoid|keep in mind|important|please note|notes?)\b[^:\n]{0,40}:\s*$"
    r"|(?:要求|规则|约束|限制|规范|注意事项|注意|原则|禁止|必须|条件|约定|偏好)[^：:\n]{0,20}[：:]\s*$",
    re.I,
)  # fmt: skip


def own_words(text: str) -> str:
    """The message with everything blanked that is not the user's own prose; of the same length."""
    for pattern in (_IDE, _CAVEAT):
        text = pattern.sub(_blank, text)
    return _PASTED.sub(_blank, _unfenced(_unframed(text)))


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a user message, in order."""
    if len(text) > LIMIT:
        text = text[: LIMIT // 2] + "\n" + text[-LIMIT // 2 :]
    own = own_words(text)
    judged = _QUOTED.sub(_quote, own)
    in_rules = False
    for start, end in _lines(own):
        line = own[start:end]
        bullet = _BULLET.match(line)
        if not line.strip():
            continue
        listed = in_rules and bullet is not None
        if not bullet:
            in_rules = line.rstrip().endswith((":", "：")) and _RULES.search(line) is not None
        for a, b in _spans(own, start + (bullet.end() if bullet else 0), end):
            yield Sentence(text[a:b], judged[a:b], listed)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, at + len(line)
        at += len(line)


def _spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sentences of one line, without the white space around them."""
    at = start
    for found in _END.finditer(text, start, end):
        if found[0].startswith(".") and _ABBREVIATION.search(
            text, max(at, found.start() - 12), found.start() + 1
        ):
            continue
        yield from _trimmed(text, at, found.end())
        at = found.end()
    yield from _trimmed(text, at, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    while end - start > _LONGEST_JUDGED:
        stop = max(text.rfind(mark, start, start + _LONGEST_JUDGED) for mark in (",", "，", " ", "、")) + 1
        stop = stop if stop > start + 1 else start + _LONGEST_JUDGED
        yield start, stop
        start = stop
    if end - start > 1:
        yield start, end


def _unframed(text: str) -> str:
    """Blocks in tags are injected or pasted, unless the tag says that the user speaks."""
    at, lone = 0, set[str]()
    for _ in range(_MOST_FRAMES):
        found = _FRAME.search(text, at)
        if found is None:
            break
        name, at = found[1], found.end()
        close = f"</{name}>"
        end = -1 if name in lone else text.find(close, at)
        if end < 0:
            lone.add(name)
            continue
        if name.lower() in _OWN_WORDS:
            text = (
                text[: found.start()]
                + " " * len(found[0])
                + text[found.end() : end]
                + " " * len(close)
                + text[end + len(close) :]
            )
        else:
            at = end + len(close)
            text = text[: found.start()] + _erased(text[found.start() : at]) + text[at:]
    return text


def _unfenced(text: str) -> str:
    marks = list(_FENCE.finditer(text))[:_MOST_FRAMES]
    out, at, index = list[str](), 0, 0
    while index < len(marks):
        opening = marks[index]
        closing = next((m for m in marks[index + 1 :] if m[1][:3] == opening[1][:3]), None)
        end = closing.end() if closing else len(text)
        out += [text[at : opening.start()], _erased(text[opening.start() : end])]
        at = end
        index = marks.index(closing, index) + 1 if closing else len(marks)
    return "".join(out) + text[at:]


def _blank(found: re.Match[str]) -> str:
    return _erased(found[0])


def _erased(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _quote(found: re.Match[str]) -> str:
    """A quotation keeps its place as a noun: `x` reads like a name, its words are not the user's."""
    return "Q" + "_" * (len(found[0]) - 1)
