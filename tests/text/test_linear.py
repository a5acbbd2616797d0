"""Everything in `refold.text` takes time in proportion to the text, whatever the text is.

Each public function reads hostile strings of growing length; the exponent of its time is fitted. A pattern
that looks at a run again from each of its characters has an exponent of 2.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Any

import pytest

from refold import text as room
from refold.errors import NotJson
from refold.text import (
    canonical,
    dates,
    frames,
    glance,
    lenient_json,
    patterns,
    plural,
    redact,
    sentences,
    terminal,
    truncate,
    words,
)

SIZES = (2_000, 8_000)
LARGER = (8_000, 16_000)
MOST = 1.7
"""Exponent that fails. Multiplying numbers of n digits, which JSON may hold, takes n to the power of 1.6."""
QUICK = 0.01
"""What is read in fewer seconds at the largest size is not quadratic: 32 million steps take longer."""

PIECES = (
    "a", "A", "1", " ", "\n", "\t", "\r", ".", "!", "?", "…", ",", ":", "-", "_", "/", "\\", "#", "*", ">", "<", "&", "[",
    "]", "(", "{", '"', "'", "`", "=", "$", "@", "|", "。", "！", "字", "か", "é", "e\u0301", "\u200d", "\ufe0f", "👩\u200d",
    "🇩", "\ud83d", "\x1b", "\x1b[", "\x1b]", "\x9b", "\x00", "＜", "．", "A.", "A. ", "e.g. ", ".\n", "\n \n", " \n", "a.b",
    "a/", "a-", "a_", "aA", "aB1", "</", "</ ", "< /", "<s", "<us", "<user", "<refold", "<|", "<|a", "&l", "&lt;", "&#60;",
    "&#", "&#x0", "[user", "[INST", "User", "User ", "===", "1:", "1:2", "1 May ", "2023-", "may ", "in 3 ", "3 days ago ",
    "last ", "like ", "the day ", "Maria ", "Maria: ", "M.", "AKIA", "ghp_", "sk-", "eyJ", "eyJa.", "-----BEGIN ", "://",
    "://a:", "key=", "token: ", "password=", "aws", "aws_secret", "xoxb-", "pat", "a1b2c3d4", "SG.", "Bearer ", "[[", '{"a":',
    '"a', '\\"', "\\u", "0.", "1e",
)  # fmt: skip
SURROUNDINGS = (("", ""), ("x", "x"), ("password=", "!"))


def hostile(piece: str, size: int, around: tuple[str, str] = ("", "")) -> str:
    return around[0] + piece * (size // len(piece)) + around[1]


def begun(text: str) -> None:
    for start in ("", "{", '["'):
        with suppress(ValueError):
            lenient_json.partial_json(start + text)


def parsed(text: str) -> None:
    with suppress(NotJson):
        lenient_json.load_json(text)


DAY = date(2023, 5, 8)
CALLS: dict[Callable[..., Any], Callable[[str], Any]] = {
    truncate.boundary: lambda text: truncate.boundary(text, len(text) // 2),
    truncate.head: lambda text: truncate.head(text, len(text) // 2),
    truncate.tail: lambda text: truncate.tail(text, len(text) // 2),
    truncate.head_words: lambda text: truncate.head_words(text, len(text) // 2),
    truncate.tail_words: lambda text: truncate.tail_words(text, len(text) // 2),
    truncate.middle: lambda text: truncate.middle(text, len(text) // 2),
    truncate.in_short: lambda text: truncate.in_short(text, len(text) // 2),
    truncate.one_line: lambda text: truncate.one_line(text, len(text) // 2),
    truncate.text_window: lambda text: truncate.text_window(text, len(text) // 3, len(text) // 3),
    sentences.split_sentences: sentences.split_sentences,
    sentences.spans: lambda text: list(sentences.spans(text)),
    sentences.speaker_of: sentences.speaker_of,
    words.count: words.count,
    words.terms: words.terms,
    words.terms_of: words.terms_of,
    words.spelled: words.spelled,
    words.search_words: words.search_words,
    words.bigrams: words.bigrams,
    words.stem: words.stem,
    dates.read_date: dates.read_date,
    dates.heading: dates.heading,
    dates.asks_when: dates.asks_when,
    dates.tells_time: lambda text: dates.tells_time(text.split()),
    dates.relative: dates.relative,
    dates.resolve: lambda text: dates.resolve(text, DAY, lambda said, when: said + when),
    frames.without_escapes: frames.without_escapes,
    frames.visible: frames.visible,
    frames.defuse: frames.defuse,
    frames.quote: frames.quote,
    terminal.clean: terminal.clean,
    terminal.escaped: terminal.escaped,
    frames.without_tags: lambda text: frames.without_tags(text, "summary", "a-b"),
    frames.frame: lambda text: frames.frame("recall", text, source=text),
    frames.element: lambda text: frames.element("summary", text, source=text),
    frames.attribute: frames.attribute,
    redact.redact: redact.redact,
    lenient_json.load_json: parsed,
    lenient_json.dump_json: lenient_json.dump_json,
    lenient_json.partial_json: begun,
    lenient_json.may_be_deep: lenient_json.may_be_deep,
    lenient_json.storable: lenient_json.storable,
    lenient_json.invalid: lenient_json.invalid,
}
NOT_ON_TEXT = {
    dates.in_utc, dates.of_time, dates.written_date, dates.month_written, canonical.seen, canonical.unescaped, truncate.level,
    lenient_json.is_storable_number, glance.card, plural.counted, patterns.lazy_pattern,
}  # fmt: skip


def public() -> set[Callable[..., Any]]:
    modules = [
        importlib.import_module(f"{room.__name__}.{found.name}")
        for found in pkgutil.iter_modules(room.__path__)
    ]
    return {
        member
        for module in modules
        for name, member in vars(module).items()
        if not name.startswith("_") and callable(member) and not inspect.isclass(member)
        if member.__module__ == module.__name__
    }  # fmt: skip


def test_every_public_function_of_the_room_is_measured() -> None:
    assert public() == set(CALLS) | NOT_ON_TEXT


def seconds(call: Callable[[str], Any], text: str) -> float:
    start = time.process_time()
    call(text)
    return time.process_time() - start


def exponent(times: list[float]) -> float:
    return math.log(times[1] / times[0], LARGER[1] / LARGER[0])


@pytest.mark.timing
@pytest.mark.parametrize(
    "function", sorted(CALLS, key=lambda f: (f.__module__, f.__name__)), ids=lambda f: f.__name__
)
def test_time_follows_the_length_of_hostile_text(function: Callable[..., Any]) -> None:
    call = CALLS[function]
    for piece in PIECES:
        for around in SURROUNDINGS:
            small = seconds(call, hostile(piece, SIZES[0], around))
            assert small < 1, f"{piece!r} between {around}"
            if small < QUICK / 16:
                continue
            large = seconds(call, hostile(piece, SIZES[-1], around))
            if large < QUICK or large < 8 * small:  # 16 times would be quadratic
                continue
            # A limit may lie between two sizes (a password is no longer than so much): the larger two decide.
            times = [min(seconds(call, hostile(piece, n, around)) for _ in range(3)) for n in LARGER]
            assert exponent(times) < MOST, f"{piece!r} between {around}: {times}"
