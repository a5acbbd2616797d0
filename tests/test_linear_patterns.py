"""No pattern in the package takes time that grows faster than the text it reads.

Every compiled pattern is found by walking the modules. It reads runs of pieces that are made from the pattern
itself (its literals, samples of its classes and of its repeated parts) and from a list that breaks careless
patterns, in the way the source uses it. A pattern fails where four times the text takes more than nine times the
work, counted in steps (`tests/regex_steps.py`).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from re import _constants as sre  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
from types import ModuleType
from typing import Any, NamedTuple, cast

import pytest

import refold
from refold.text.patterns import LazyPattern
from refold.text.redaction.secrets import SecretFormat
from tests.regex_steps import Counted, TooMuchWork

SIZES = 80, 240
BOUND = 8
FACTOR = 9.0
"""Four times the text. Linear: 4, quadratic: 16."""
MOST_STEPS = 1_000_000
"""What a pattern may cost on a text of bounded length."""
MOST = 40
PARTS = 16
"""The patterns are read in so many tests."""
PIECES = (
    "a", "A", "1", " ", "\n", "\t", "\r", ".", ",", ":", "-", "_", "/", "\\", "#", "*", "<", ">", "[", "(", "{", '"', "'", "`",
    "=", "é", "字", "a ", "a\n", " \n", "\n \n", "a.", "a/", "a-", "a_", "aB", "a1", "1.", "1,", "((", "a=", "- ", "# ", "> ",
)  # fmt: skip


BOUNDED = {
    "refold.facts.check_results.": 600,
    "refold.facts.tool_outcome.": 400,
    "refold.facts.hunks._DEFINES": 200,
    "refold.compare.measures._SHAPE": 200,
    "refold.recall.index._remark": 400,
}
"""Patterns whose callers cut what they read to so many characters first. They must be quick at that length."""


class Used(NamedTuple):
    where: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


def modules() -> Iterator[ModuleType]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # packages that have another name now
        names = [found.name for found in pkgutil.walk_packages(refold.__path__, "refold.")]
    for name in names:
        if name.endswith("__main__") or ".testing" in name:
            continue
        try:
            yield importlib.import_module(name)
        except ModuleNotFoundError as error:  # a framework that is not installed here
            assert name.startswith("refold.integrations."), error


def inside(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """Patterns in a value: tables, rows and objects of our own."""
    if isinstance(value, re.Pattern):
        yield cast("re.Pattern[Any]", value)
    elif isinstance(value, (SecretFormat, LazyPattern)):  # compiled when it is first needed
        yield re.compile(value.pattern, getattr(value, "flags", 0))
    elif depth < 4 and isinstance(value, (list, tuple, set, frozenset)):
        for item in cast("Iterable[Any]", value):
            yield from inside(item, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        for item in cast("dict[Any, Any]", value).values():
            yield from inside(item, depth + 1)
    elif depth < 4 and type(value).__module__.startswith("refold") and hasattr(value, "__dict__"):
        yield from inside(vars(value), depth + 1)


_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")


@cache
def patterns() -> list[Used]:
    found: dict[tuple[Any, int], Used] = {}
    for module in modules():
        source = Path(str(module.__file__)).read_text()
        for name, value in list(vars(module).items()):
            for pattern in inside(value):
                used = frozenset(m for m in _METHODS if re.search(rf"\b{re.escape(name)}\.{m}\b", source))
                key = pattern.pattern, pattern.flags
                known = found.get(key)
                methods = used | (known.methods if known else frozenset())
                found[key] = Used(known.where if known else f"{module.__name__}.{name}", pattern, methods)
    return list(found.values())


@pytest.mark.slow
def test_patterns_are_found() -> None:
    assert len(patterns()) > 150


def test_no_group_is_repeated_possessively() -> None:
    """Before Python 3.11.5, `(?:a|b)*+` does not match what it should, nor end where it should; `(?>(?:a|b)*)` does.
    Single characters (`[ab]*+`) always did."""
    assert [used.where for used in patterns() if possessive_groups(parse(used.pattern))] == []
    assert possessive_groups(parse(re.compile(r"x(?:(?:ab|c){2,}+)?")))
    assert not possessive_groups(parse(re.compile(r"(?>(?:ab|c){2,})[ab]*+")))


def possessive_groups(nodes: Any) -> bool:
    one_character = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
    return any(
        (kind is sre.POSSESSIVE_REPEAT and (len(value[2]) != 1 or value[2][0][0] not in one_character))
        or any(possessive_groups(below) for below in children(value))
        for kind, value in nodes
    )


def children(value: Any) -> Iterator[Any]:
    if type(value).__name__ == "SubPattern":
        yield value
    elif isinstance(value, (tuple, list)):
        for item in cast("Iterable[Any]", value):
            yield from children(item)


def parse(pattern: re.Pattern[Any]) -> Any:
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return parser.parse(text, pattern.flags & ~re.DEBUG)


# ── strings that a pattern cannot like ──────────────────────────────────────────────────────────


def sample(nodes: Any, times: int = 1) -> str:
    """A text that the parsed pattern matches, or nearly."""
    made: list[str] = []
    for kind, value in nodes:
        if kind in (sre.LITERAL,):
            made.append(chr(value))
        elif kind is sre.NOT_LITERAL:
            made.append("x" if value != ord("x") else "y")
        elif kind is sre.ANY:
            made.append("a")
        elif kind is sre.IN:
            made.append(one_of(value))
        elif kind is sre.BRANCH:
            made.append(sample(value[1][0], times))
        elif kind is sre.SUBPATTERN:
            made.append(sample(value[3], times))
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            low, high, body = value
            made.append(sample(body, times) * max(low, min(int(high), times)))
        elif kind is sre.ATOMIC_GROUP:
            made.append(sample(value, times))
    return "".join(made)


def one_of(members: Any) -> str:
    negated = members[0][0] is sre.NEGATE
    candidates = "a1 \n-./:A字\"'<[(=_#é" if negated else ""
    for kind, value in members:
        if negated:
            continue
        if kind is sre.LITERAL:
            return chr(value)
        if kind is sre.RANGE:
            return chr(value[0])
        if kind is sre.CATEGORY:
            return {sre.CATEGORY_DIGIT: "1", sre.CATEGORY_SPACE: " ", sre.CATEGORY_WORD: "a"}.get(value, "-")
    return candidates[:1]


def parts(nodes: Any) -> Iterator[str]:
    """Samples of every piece of a pattern by itself, and of what may repeat."""
    run = ""
    for kind, value in nodes:
        run = run + chr(value) if kind is sre.LITERAL else run
        yield sample([(kind, value)])
        if kind is sre.SUBPATTERN:
            yield from parts(value[3])
        elif kind is sre.BRANCH:
            for branch in value[1]:
                yield sample(branch)
                yield from parts(branch)
        elif kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            yield from parts(value[2])
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            yield from parts(value[1])
        elif kind is sre.ATOMIC_GROUP:
            yield from parts(value)
    yield run
    yield sample(nodes)


def pieces(pattern: re.Pattern[Any], others: Sequence[str] = PIECES) -> list[str]:
    tree = parse(pattern)
    own = dict.fromkeys(piece[:40] for piece in parts(tree) if piece)
    # Of a long list of words each is as good as the other.
    return list(dict.fromkeys((*list(own)[:MOST], sample(tree)[:200] or "a", *others)))


def readers(used: Used) -> Iterator[Callable[[Counted], object]]:
    methods = used.methods or frozenset(("finditer", "match"))
    if methods & {"search", "finditer", "findall", "sub", "subn", "split"}:
        yield Counted.finditer
    if "match" in methods:
        yield Counted.match
    if "fullmatch" in methods:
        yield Counted.fullmatch


def steps(pattern: re.Pattern[Any], read: Callable[[Counted], object], text: Any, limit: int = 10**9) -> int:
    counted = Counted(pattern, text, limit=limit, bound=BOUND)
    try:
        read(counted)
    except TooMuchWork:
        return limit + 1
    return counted.steps


def grows(pattern: re.Pattern[Any], read: Callable[[Counted], object], text: Callable[[int], Any]) -> bool:
    """Does four times the text take much more than four times the work, at two sizes? (Bounded repeats in
    a row grow at first.)"""
    for size in SIZES:
        small = steps(pattern, read, text(size), 1_000 * size)
        if small > 1_000 * size:
            return True
        limit = int(FACTOR * small)
        if steps(pattern, read, text(4 * size), limit) <= limit:
            return False
    return True


def bound(used: Used) -> int | None:
    return next((width for name, width in BOUNDED.items() if used.where.startswith(name)), None)


ALONE, BROKEN_OFF = ("", ""), ("x", "\x01")
"""What stands around a repeated piece: nothing, or what most patterns do not go on with, so that all is tried again."""


def texts(
    used: Used, around: tuple[str, str], others: Sequence[str] = PIECES
) -> Iterator[tuple[str, Callable[[int], Any]]]:
    binary = isinstance(used.pattern.pattern, bytes)
    for piece in pieces(used.pattern, others):

        def text(size: int, piece: str = piece) -> Any:
            made = around[0] + piece * max(size // len(piece), 1) + around[1]
            return made.encode() if binary else made

        yield f"{piece!r} between {around}", text


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_patterns_read_hostile_text_in_linear_time(part: int) -> None:
    """All pieces of the pattern itself, and every third of those that are tried on all patterns."""
    check_patterns(part, BROKEN_OFF, PIECES[part % 3 :: 3])


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("around", [BROKEN_OFF, ALONE])
def test_patterns_read_every_text_in_linear_time(part: int, around: tuple[str, str]) -> None:
    check_patterns(part, around)


def check_patterns(part: int, around: tuple[str, str], others: Sequence[str] = PIECES) -> None:
    for used in patterns()[part::PARTS]:
        width = bound(used)
        for read in readers(used):
            for what, text in texts(used, around, others):
                shown = f"{used.where}: {used.pattern.pattern!r} on {what}"
                if width is not None:
                    assert steps(used.pattern, read, text(width)[:width]) <= MOST_STEPS, shown
                else:
                    assert not grows(used.pattern, read, text), shown


@pytest.mark.sample(1)
@pytest.mark.parametrize("bad", [r"\s*;", r"(a+)+$", r"(?:x|xx)*y", r"\w+@", r".*foo"])
def test_a_pattern_that_is_not_linear_is_found_out(bad: str) -> None:
    used = Used("bad", re.compile(bad), frozenset(("split",)))
    assert any(
        grows(used.pattern, read, text) for read in readers(used) for _, text in texts(used, BROKEN_OFF)
    )


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_the_counting_matcher_finds_what_re_finds(part: int) -> None:
    for used in patterns()[part::PARTS]:
        for piece in pieces(used.pattern)[:15]:
            made = "x " + piece * 3 + "\n" + piece
            text = made.encode("latin-1", "replace") if isinstance(used.pattern.pattern, bytes) else made
            match = used.pattern.match(text)
            assert Counted(used.pattern, text).match() == (match.end() if match else None), used.where
            matches = sum(1 for _ in used.pattern.finditer(text))
            assert Counted(used.pattern, text).finditer() == matches, used.where
