"""How much work a regular expression does on a text, counted instead of timed.

A small backtracking matcher over the parse tree of `re`. It tries what the engine of `re` tries, in the same order, and
counts the characters and branches it looks at: the same number on every machine.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from re import _constants as sre  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
from typing import Any

Next = Callable[[int], int | None]
"""What comes after a node: takes a position, gives the end of the whole match or None."""
Matcher = Callable[[int, Next], int | None]


@contextmanager
def _deep_recursion() -> Generator[None]:
    """A repeated group recurses once for each of its rounds."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class TooMuchWork(Exception):
    """The limit of steps was passed."""


class Counted:
    """A pattern whose work on one text is counted in `steps`.

    A bound of a repeat (`{2,400}`) changes what a pattern costs by a constant. `bound` lowers all of them, so that the
    constant is reached on short texts and growth shows there.
    """

    def __init__(
        self, pattern: re.Pattern[Any], text: Any, *, limit: int = 10**9, bound: int | None = None
    ) -> None:
        self.steps = 0
        self._limit = limit
        self._bound = bound
        self._text = text if isinstance(text, str) else text.decode("latin-1")
        self._groups: dict[int, tuple[int, int]] = {}
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        flags = pattern.flags & ~re.DEBUG
        flags |= 0 if isinstance(pattern.pattern, str) else re.ASCII
        self._match = self._sequence(list(parser.parse(source, flags)), flags)

    def match(self, at: int = 0, *, advance: bool = False) -> int | None:
        """The end of the match at a position; `advance`: of one that is not empty."""
        self._groups.clear()
        with _deep_recursion():
            return self._match(at, lambda end: None if advance and end == at else end)

    def fullmatch(self) -> int | None:
        with _deep_recursion():
            return self._match(0, lambda end: end if end == len(self._text) else None)

    def finditer(self) -> int:
        """How many matches there are."""
        at = found = 0
        advance = False
        while at <= len(self._text):
            end = self.match(at, advance=advance)
            self._count()
            advance = end == at
            found += end is not None
            at = at + 1 if end is None else end
        return found

    def _count(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > self._limit:
            raise TooMuchWork

    # ── nodes ───────────────────────────────────────────────────────────────────────────────────

    def _sequence(self, nodes: Any, flags: int) -> Matcher:
        matchers = [self._node(kind, value, flags) for kind, value in nodes]

        def match(at: int, then: Next, index: int = 0) -> int | None:
            if index == len(matchers):
                return then(at)
            return matchers[index](at, lambda end: match(end, then, index + 1))

        return matchers[0] if len(matchers) == 1 else match

    def _node(self, kind: Any, value: Any, flags: int) -> Matcher:
        single = self._single(kind, value, flags)
        if single is not None:

            def one(at: int, then: Next) -> int | None:
                self._count()
                return then(at + 1) if single(at) else None

            return one
        match kind:
            case sre.BRANCH:
                return self._branch([list(nodes) for nodes in value[1]], flags)
            case sre.SUBPATTERN:
                group, add, remove, nodes = value
                return self._group(group, self._sequence(list(nodes), (flags | add) & ~remove))
            case sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
                return self._repeat(kind, *value, flags)
            case sre.ATOMIC_GROUP:
                return self._atomic(self._sequence(list(value), flags))
            case sre.ASSERT | sre.ASSERT_NOT:
                direction, nodes = value
                return self._look(self._sequence(list(nodes), flags), direction, nodes, kind is sre.ASSERT)
            case sre.AT:
                return self._at(value, flags)
            case sre.GROUPREF:
                return self._same_as(value)
            case sre.GROUPREF_EXISTS:
                group, yes, no = value
                found, missing = self._sequence(list(yes), flags), self._sequence(list(no or ()), flags)
                return lambda at, then: (found if group in self._groups else missing)(at, then)
        raise NotImplementedError(kind)

    def _single(self, kind: Any, value: Any, flags: int) -> Callable[[int], bool] | None:
        """Whether the character at a position is one that the node takes; None: the node is not one character."""
        if kind not in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            return None
        # What a class means is left to `re`: one character at a time.
        pattern = re.compile(_source(kind, value), flags & ~(re.VERBOSE | re.DEBUG))
        text, known = self._text, dict[str, bool]()

        def takes(at: int) -> bool:
            if at >= len(text):
                return False
            sign = text[at]
            if sign not in known:
                known[sign] = pattern.fullmatch(sign) is not None
            return known[sign]

        return takes

    def _branch(self, branches: list[Any], flags: int) -> Matcher:
        """Alternatives in order. One that begins with another character is passed over at no cost, as in `re`."""
        text = self._text
        firsts = [self._single(*nodes[0], flags) if nodes else None for nodes in branches]
        matchers = [self._sequence(nodes, flags) for nodes in branches]
        known = dict[str, list[Matcher]]()

        def match(at: int, then: Next) -> int | None:
            sign = text[at : at + 1]
            if sign not in known:
                known[sign] = [
                    matcher
                    for first, matcher in zip(firsts, matchers, strict=True)
                    if first is None or first(at)
                ]
            self._count()
            for branch in known[sign]:
                self._count()
                end = branch(at, then)
                if end is not None:
                    return end
            return None

        return match

    def _group(self, number: int | None, inner: Matcher) -> Matcher:
        if number is None:
            return inner

        def match(at: int, then: Next) -> int | None:
            before = self._groups.get(number)

            def close(end: int) -> int | None:
                self._groups[number] = (at, end)
                return then(end)

            end = inner(at, close)
            if end is None and before is not None:
                self._groups[number] = before
            return end

        return match

    def _repeat(self, kind: Any, low: int, high: Any, nodes: Any, flags: int) -> Matcher:
        most, nodes = int(high), list(nodes)
        if self._bound is not None and high is not sre.MAXREPEAT:
            low, most = min(low, self._bound), min(most, self._bound)
        single = self._single(*nodes[0], flags) if len(nodes) == 1 else None
        if single is not None:
            return self._run(kind, low, most, single)
        inner = self._sequence(nodes, flags)
        if kind is sre.POSSESSIVE_REPEAT:
            return self._atomic(self._repeated(inner, low, most, greedy=True))
        return self._repeated(inner, low, most, greedy=kind is sre.MAX_REPEAT)

    def _run(self, kind: Any, low: int, most: int, takes: Callable[[int], bool]) -> Matcher:
        """Repeats of one character, without recursion."""

        def greedy(at: int, then: Next) -> int | None:
            end = at
            while end - at < most and takes(end):
                end += 1
            self._count(end - at + 1)
            least = max(at + low, end if kind is sre.POSSESSIVE_REPEAT else at)
            for stop in range(end, least - 1, -1):
                self._count()
                found = then(stop)
                if found is not None:
                    return found
            return None

        def lazy(at: int, then: Next) -> int | None:
            end = at
            while True:
                self._count()
                if end - at >= low:
                    found = then(end)
                    if found is not None:
                        return found
                if end - at >= most or not takes(end):
                    return None
                end += 1

        return lazy if kind is sre.MIN_REPEAT else greedy

    def _repeated(self, inner: Matcher, low: int, most: int, *, greedy: bool) -> Matcher:
        def match(at: int, then: Next, times: int = 0) -> int | None:
            self._count()

            def again() -> int | None:
                if times >= most:
                    return None
                # A round that takes nothing ends the repetition, as it does in `re`.
                return inner(
                    at, lambda end: None if end == at and times >= low else match(end, then, times + 1)
                )

            if times < low:
                return again()
            for step in (again, lambda: then(at)) if greedy else (lambda: then(at), again):
                end = step()
                if end is not None:
                    return end
            return None

        return match

    def _atomic(self, inner: Matcher) -> Matcher:
        def match(at: int, then: Next) -> int | None:
            end = inner(at, lambda end: end)
            return None if end is None else then(end)

        return match

    def _look(self, inner: Matcher, direction: int, nodes: Any, wanted: bool) -> Matcher:
        width = nodes.getwidth()[0] if direction < 0 else 0

        def match(at: int, then: Next) -> int | None:
            self._count()
            found = at >= width and inner(at - width, lambda end: end) is not None
            return then(at) if found is wanted else None

        return match

    def _at(self, where: Any, flags: int) -> Matcher:
        names = {
            sre.AT_BEGINNING: "^", sre.AT_BEGINNING_STRING: r"\A", sre.AT_END: "$", sre.AT_END_STRING: r"\Z",
            sre.AT_BOUNDARY: r"\b", sre.AT_NON_BOUNDARY: r"\B",
        }  # fmt: skip
        pattern = re.compile(names[where], flags & (re.MULTILINE | re.ASCII))
        text, known = self._text, dict[int, bool]()

        def match(at: int, then: Next) -> int | None:
            self._count()
            if at not in known:
                known[at] = pattern.match(text, at) is not None
            return then(at) if known[at] else None

        return match

    def _same_as(self, group: int) -> Matcher:
        def match(at: int, then: Next) -> int | None:
            start, end = self._groups.get(group, (0, 0))
            width = end - start
            self._count(width + 1)
            same = group in self._groups and self._text[start:end] == self._text[at : at + width]
            return then(at + width) if same else None

        return match


def _source(kind: Any, value: Any) -> str:
    """The pattern of a node that takes one character."""
    if kind is sre.ANY:
        return "."
    if kind is sre.LITERAL:
        return re.escape(chr(value))
    if kind is sre.NOT_LITERAL:
        return f"[^{_escaped(value)}]"
    return f"[{''.join(_member(*member) for member in value)}]"


def _member(kind: Any, value: Any) -> str:
    if kind is sre.NEGATE:
        return "^"
    if kind is sre.LITERAL:
        return _escaped(value)
    if kind is sre.RANGE:
        return f"{_escaped(value[0])}-{_escaped(value[1])}"
    return {
        sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_NOT_SPACE: r"\S",
        sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
    }[value]  # fmt: skip


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"
