"""Secrets out of text, before it leaves for a summariser, an export or a report.

One table of formats (data, with where each is documented) and one pass: a format's pattern only runs where
one of its literals occurs, so text without secrets costs a few substring searches. Two rules without a fixed
format, assignments (`password = "…"`) and credentials in URLs, look at how random the value is.
"""
# ruff: noqa: E501 (patterns that read better on one line)

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from typing import cast

import msgspec

from refold.text.canonical import Canonical
from refold.text.secrets import FORMATS, Format


class Finding(msgspec.Struct, frozen=True):
    """A secret that was replaced: what kind, and where it stood in the original text. Never the secret."""

    kind: str
    start: int
    end: int

    @property
    def mark(self) -> str:
        """What stands in its place."""
        return f"[redacted:{self.kind}]"


KINDS: tuple[str, ...] = (*dict.fromkeys(row.kind for row in FORMATS), "assignment", "cookie")

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_COMPILED = tuple((row, re.compile(row.pattern)) for row in FORMATS)
_RUN = 18
"""Shortest unbroken run of characters that a secret of a fixed format makes."""
_UNBROKEN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.:~-")
_SHAPE = bytes(ord("a") if code in _UNBROKEN else ord(" ") for code in range(256))
_LINES = bytes(code if code == 10 else 10 if code == 13 else _SHAPE[code] for code in range(256))
_LINE_OF_RUN = b"a" * 8 + b"\n"
_WRAP = re.compile(rb"([\w+/=.:~-]{8,300}+)\r?\n[ \t]{0,16}+([\w+/=.~-]{4,300}+)")
_PLAIN = b"abcdefghijklmnopqrstuvwxyz_+/=.:~-"
_LITERALS = tuple(
    (literal, literal.encode(), row.loose, row, pattern)
    for row, pattern in _COMPILED
    for literal in row.literals
)
"""Literals, whether they stand outside of the secret, and what they belong to."""
_LOOSE_LITERALS = tuple(row for row in _LITERALS if row[2])
_SHORT = 240
"""Characters of a text in which one look for all literals is faster than a look for each of them."""
_KEYWORDS = (
    b"passw", b"passphrase", b"secret", b"token", b"_key", b"apikey", b"api-key", b"accesskey", b"credential", b"pwd", b"pass",
    b"psk", b"_auth", b"signature", b"pw", b"-key", b"privatekey", b"sharedkey", b"identified by",
)  # fmt: skip
_EXACT = (b"pass", b"psk", b"_auth", b"signature", b"pw", b"identified by")
"""Words that say so only where nothing follows them."""
_ANY_LOOSE, _ANY_TIGHT, _ANY_KEYWORD = (
    re.compile(b"|".join(map(re.escape, sorted(words))))
    for words in (
        {row[1] for row in _LOOSE_LITERALS},
        {row[1] for row in _LITERALS if not row[2]},
        {*_KEYWORDS, b"cookie"},
    )
)
_CODE = r"\s\"'`,;<>{}()\[\]$&|\\"
_QUOTED = r"(?:[^\s\"'`\\&]|&(?!quot;))"
_LINE_END = r"(?:(?:(?:\\|[>|]-)[ \t]{0,4}\r?\n?|\r?\n)[ \t+>]{1,16})?"
"""The value may stand on the next line, further in, or quoted."""
_ASSIGNED = re.compile(
    r"(?P<rest>[\w-]{0,24})(?:"
    rf"\\{{0,3}}[\"'\]]{{0,2}}[ \t]{{0,16}}(?:(?:=>|:=|={{1,2}}|:)[ \t]{{0,16}}{_LINE_END}|(?<=[\"']),[ \t]{{0,16}})(?:(?:\\{{0,3}}[bru]?[\"'`]{{1,3}}|&quot;)(?P<quoted>{_QUOTED}{{6,2000}}+|{_QUOTED}{{3,2000}}+\n[ \t]{{0,16}}{_QUOTED}{{3,2000}}+)(?:\\{{0,3}}[\"'`]|&quot;)"
    rf"|(?P<bare>[^{_CODE}]{{6,2000}}+)(?=[\s\"',;&<#)]|$))"
    r"|[ \t](?:is|was)?[ \t:]{0,3}`(?P<told>[^\s`]{6,200}+)`"
    rf"|[ \t](?:is|was|ist|lautet|est)[ \t:]{{1,3}}(?P<said>[^{_CODE}]{{6,200}}+)(?=[\s\"',;)]|$)"
    r"|[\"']?\r?\n[ \t]{0,16}value:[ \t]{1,4}[\"']?(?P<variable>[^\s\"']{6,2000}+)"
    r"|>[ \t]{0,16}(?P<element>[^\s<>]{6,200}+)[ \t]{0,16}</"
    r"|\"\s{1,4}value\s{0,2}=\s{0,2}\"(?P<value>[^\s\"]{6,200}+)\""
    r"|[ \t`*]{0,16}\|[ \t`*]{0,16}(?P<cell>[^\s|`*]{6,200}+)[ \t`*]{0,16}\|"
    rf"|[ \t]{{1,4}}[\"'](?P<literal>{_QUOTED}{{6,200}}+)[\"']"
    rf"|[ \t]{{1,4}}(?P<flag>[\"']?[^{_CODE}]{{6,2000}}+)(?=[\s\"';&|]|$)"
    r")",
    re.M,
)
"""What follows a word that says secret: a value in one of the places where values stand."""
_STRONG = re.compile(
    r"(?i)(?:passw(?:or)?d|passphrase|pwd|secret|token|api[_-]?key|(?:access|account|auth|certificate|client|encryption|master|private|secret|shared|signing)[_-]?key|credentials?|(?:^|[_-]|store|key)pass|psk|_auth|(?:^|[_-]|bind|root)pw|identified by)$"
)
"""Names that are nothing but secret. Others (`token_type`) have values that only look like one now and then."""
_WORD = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z][a-z]{2}|(?<![A-Za-z])[A-Z]{3,}(?![a-z])")
_NAME = re.compile(r"[\w-]{0,40}\Z")
_COOKIE = re.compile(r"(?i)(?<![\w])cookie\\?[\"']?\s{0,3}:\s{0,3}[\"']?([^\n\"']{8,4000})")
_CRUMB = re.compile(r"[^\s=;,]{1,80}=([^\s=;,\"']{16,1000})")
_PLACEHOLDER = re.compile(
    r"(?i)(?:<|\$|\{|%|\*|\[redacted).*|(.)\1*|x[x-]+|\.{2,}.*|your[a-z_-]*|my[_-]?(?:password|secret|token|key)"
    r"|(?:some|new|old|a|the|test|dummy|fake|sample|example)?[_-]?(?:password|passwd|passphrase|pass|pwd|secret|token|api[_-]?key|credentials?)"
    r"|change[_-]?(?:me|it|this)|replace[_-]?me|placeholder|dummy|example|sample|redacted|hidden|masked|prompt|none|null|nil|undefined"
    r"|string|required|optional|boolean|integer|hunter2(?:hunter2)?|foobar|(?:self|this|args|config|settings|process\.env|os\.environ)[.\[(].*",
    re.S,
)
"""What stands for a secret without being one: references to variables, types, and words that documentation uses."""
_CERTAIN = re.compile(
    r"(?i)(?:passw(?:or)?d|passphrase|pwd|(?:^|[_.-]|client|app|jwt)secret|secret[_-]?key|api[_-]?key"
    r"|(?:access|auth|api|bearer|refresh|bot|oauth|deploy)[_-]?token|(?:private|signing|encryption|master|fernet)[_-]?key"
    r"|(?:^|[_-]|store|key)pass|psk|(?:^-|bind|root)pw|identified by)$"
)
"""Names of values that are nothing but secrets, whatever the value looks like."""
_IDENTIFIER = re.compile(r"(?:[_.]?(?:[A-Z]?[a-z]{2,}+|[A-Z]{2,}+(?![a-z])|[A-Z](?=[A-Z]|\b|_)))++")
"""How code names things: where a value may be an expression, that is none."""
_CAMEL_NAME = re.compile(
    r"(?:[A-Z]+|[a-z]+)(?:[A-Z][a-z]+)*(?:Password|Secret|SecretKey|Token|ApiKey|AccessKey)"
)
_WORD_ALONE = re.compile(r"[a-z]+|[A-Z_]+|[A-Z][a-z]+")


def redact(text: str) -> tuple[str, list[Finding]]:
    """The text with every secret replaced by `[redacted:KIND]`, and what was replaced, in order."""
    found = sorted(_found(text), key=lambda f: (f.start, -f.end))
    if not found:
        return text, []
    pieces: list[str] = []
    kept: list[Finding] = []
    at = 0
    for finding in found:
        if finding.start < at:
            # What is found in two ways is one secret: nothing of either stays.
            kept[-1] = msgspec.structs.replace(kept[-1], end=max(at, finding.end))
            at = kept[-1].end
            continue
        pieces += [text[at : finding.start], finding.mark]
        kept.append(finding)
        at = finding.end
    return "".join((*pieces, text[at:])), kept


def _found(text: str) -> list[Finding]:
    # One byte per character, so that places agree; bytes are searched several times faster than text.
    raw = text.encode("ascii", "replace")
    found = [*_found_in(text, raw)]
    taken = sorted((finding.start, finding.end) for finding in found)
    for finding in _wrapped(raw):
        before = bisect_left(taken, (finding.end, 0))
        if not before or taken[before - 1][1] <= finding.start:
            found.append(finding)
    plain = Canonical(text, raw.lower())
    there = _found_in(plain.text, plain.text.encode("ascii", "replace")) if plain.text else ()
    found.extend(Finding(finding.kind, *plain.span(finding.start, finding.end)) for finding in there)
    return found


def _found_in(text: str, raw: bytes) -> Iterator[Finding]:
    if "\x1b" in text:  # a colour is no part of what it colours; places stay the same
        text = _COLOUR.sub(lambda colour: " " * len(colour[0]), text)
        raw = text.encode("ascii", "replace")
    runs, lowered = _runs(raw), raw.lower()
    joined = runs.decode("ascii")
    rows = _LITERALS if runs else _LOOSE_LITERALS
    if len(raw) <= _SHORT:
        rows = rows if _ANY_LOOSE.search(raw) or _ANY_TIGHT.search(runs) else ()
        lowered = lowered if _ANY_KEYWORD.search(lowered) else b""
    for literal, encoded, loose, row, pattern in rows:
        if encoded not in (raw if loose else runs):
            continue
        # Many words begin like a secret: the runs alone tell most of them from one.
        if loose or any(_matches(joined, literal, row.before, pattern)):
            yield from _of_format(text, literal, row, pattern)
    yield from _assignments(text, lowered)
    yield from _cookies(text, lowered)


def _of_format(text: str, literal: str, row: Format, pattern: re.Pattern[str]) -> Iterator[Finding]:
    group = 1 if pattern.groups else 0
    for match in _matches(text, literal, row.before, pattern):
        if _plausible(row.kind, match[group]):
            yield Finding(row.kind, match.start(group), match.end(group))


def _wrapped(raw: bytes) -> Iterator[Finding]:
    """Secrets of a fixed format that go on in the next line, which may be further in."""
    wraps = list(_wraps(raw))
    if not wraps:
        return
    # All of them at once: few formats occur in any.
    together = b"\n".join(wrap[1] + wrap[2] for wrap in wraps)
    formats = {
        row.kind: (row, pattern)
        for _, encoded, loose, row, pattern in _LITERALS
        if not loose and encoded in together
    }
    for wrap in wraps:
        for row, pattern in formats.values():
            yield from _joined(wrap, row, pattern)


def _wraps(raw: bytes) -> Iterator[re.Match[bytes]]:
    """A run that a line ends with, and the beginning of the next."""
    shape = raw.translate(_LINES)
    at = shape.find(_LINE_OF_RUN)
    while at >= 0:
        start = max(shape.rfind(b" ", 0, at), shape.rfind(b"\n", 0, at)) + 1
        wrap = _WRAP.match(raw, start) if raw[start : at + 8].translate(None, _PLAIN) else None
        if wrap:
            yield wrap
        at = shape.find(_LINE_OF_RUN, at + len(_LINE_OF_RUN))


def _joined(wrap: re.Match[bytes], row: Format, pattern: re.Pattern[str]) -> Iterator[Finding]:
    joined = (wrap[1] + wrap[2]).decode()
    if not any(literal in joined for literal in row.literals):
        return
    match = pattern.search(joined)
    if match and match.start() < len(wrap[1]) < match.end() and _plausible(row.kind, match[0]):
        start, end = wrap.start(1) + match.start(), wrap.start(2) + match.end() - len(wrap[1])
        yield Finding(row.kind, start, end)


def _cookies(text: str, lowered: bytes) -> Iterator[Finding]:
    at = lowered.find(b"cookie")
    while at >= 0:
        header = _COOKIE.match(text, at)
        crumbs = _CRUMB.finditer(text, header.start(1), header.end(1)) if header else ()
        for crumb in crumbs:
            if _random(crumb[1]):
                yield Finding("cookie", crumb.start(1), crumb.end(1))
        at = lowered.find(b"cookie", header.end() if header else at + 6)


def _runs(raw: bytes) -> bytes:
    """The long unbroken runs that are no plain words: a few per cent of ordinary text, and all a secret can
    hide in."""
    shape = raw.translate(_SHAPE) + b" "
    found: list[bytes] = []
    least = b"a" * _RUN
    at = shape.find(least)
    while at >= 0:
        end = shape.find(b" ", at)
        run = raw[at:end]
        if run.translate(None, _PLAIN):
            found.append(run)
        at = shape.find(least, end)
    return b"\n".join(found)


def _matches(
    text: str, literal: str, before: tuple[int, ...], pattern: re.Pattern[str]
) -> Iterator[re.Match[str]]:
    """Matches around each occurrence of a literal: searching for it is far cheaper than for the pattern."""
    at = text.find(literal)
    while at >= 0:
        end = at + 1
        for back in before:
            match = pattern.match(text, at - back) if at >= back else None
            if match:
                yield match
                end = max(end, match.end())
                break
        at = text.find(literal, end)


def _plausible(kind: str, value: str) -> bool:
    """Documentation is full of examples; they are no secrets."""
    if kind in ("private-key", "ssh2-key", "putty-key", "zapier-webhook"):
        return True
    if kind == "url-token":
        return _random(value)
    if kind in ("url-credentials", "command-line", "pgpass"):
        return not _PLACEHOLDER.fullmatch(value)
    # A run of one character is a picture of a key.
    return "EXAMPLE" not in value and len(set(value[-16:])) > 4


def _assignments(text: str, lowered: bytes) -> Iterator[Finding]:
    """Values that look random, given to names that say they are secret."""
    for keyword in _KEYWORDS:
        at = lowered.find(keyword)
        while at >= 0:
            match = _ASSIGNED.match(text, at + len(keyword))
            if match and not (keyword in _EXACT and match["rest"]):
                place = cast("str", match.lastgroup)
                value = match[place].rstrip(".:") if place in ("bare", "said") else match[place].strip("\"'")
                before = cast("re.Match[str]", _NAME.search(text, max(0, at - 40), at))
                name = before[0] + text[at : match.end("rest")]
                sign = text[match.end("rest") : match.start(place)]
                known = "".join(value.split())
                if "=" in known and _CERTAIN.search(known.partition("=")[0]):
                    pass  # `password=password=…`: the next name has the value
                elif _stands(name, place, sign, known, text, before.start(), match.end()) or _is_secret(
                    name, place, known, text, before.start()
                ):
                    start = match.start(place) + match[place].find(value)
                    yield Finding("assignment", start, start + len(value))
            at = lowered.find(keyword, match.end("rest") + 1 if match else at + len(keyword))


def _stands(name: str, place: str, sign: str, value: str, text: str, start: int, end: int) -> bool:
    """Whether the value stands where a secret stands. Then it is one, whatever it looks like: only placeholders
    are none."""
    if (
        not _CERTAIN.search(name)
        or _PLACEHOLDER.fullmatch(value)
        or value.startswith(("/", "./", "http", "--", "@"))
    ):
        return False
    if place == "flag":
        given = name.startswith("-") or name.endswith("pw") or "login" in text[max(0, start - 120) : start]
        return given and _WORD_ALONE.fullmatch(value) is None
    if place in ("said", "told", "cell"):  # in prose
        return not (
            _WORD_ALONE.fullmatch(value) or _IDENTIFIER.fullmatch(value) or re.search(r"[()\[\]\\]", value)
        )
    if place != "bare":
        # Not a name in a list of names, and not the name of a setting that holds the secret.
        is_name = "_" in value and _STRONG.search(value) and _IDENTIFIER.fullmatch(value)
        return "," not in sign and not is_name and not _CAMEL_NAME.fullmatch(value)
    line = text.rfind("\n", 0, start) + 1
    before = text[line:start]
    follows = text[end : end + 1]
    if sign == "=":  # an environment, properties, a query, a connection string
        if name.isupper() or before.endswith((".", ";", "&", "?", "=")) or not before.strip("+-"):
            return True
        return before[-1].isspace() and follows not in (",", ")") and not _IDENTIFIER.fullmatch(value)
    if sign.strip() == ":" and not before.strip(" -+") and follows in ("", "\n", "\r"):
        # A line of YAML, an annotation, or a label in a form.
        return name.isupper() or (value.isascii() and _IDENTIFIER.fullmatch(value) is None)
    return False


def _is_secret(name: str, place: str, value: str, text: str, start: int) -> bool:
    strong = _STRONG.search(name) is not None
    if text[start - 1 : start] == ":" and place == "bare":
        return False  # `arn:aws:secretsmanager:…:secret:NAME`
    if place == "flag":
        # A word after a word: only behind a flag, or in a netrc, where a login stands before it.
        is_flag = name.startswith("-") or name.endswith("pw")
        return strong and (is_flag or "login" in text[max(0, start - 120) : start]) and _mixed(value)
    if place == "bare" and strong and len(value) < 16:
        # In code such a value is a name: there must be more than names have.
        return _mixed(value) and not _is_name(value)
    if place in ("said", "literal") and not strong:
        return False
    if strong and place != "bare":
        return _random(value) or (_mixed(value) and not _is_name(value))
    return len(value) >= 16 and _random(value) and (strong or not _is_name(value))


def _is_name(value: str) -> bool:
    """Words put together as names are: more than half of it is words, or half, if joined as names are."""
    words = 2 * sum(map(len, _WORD.findall(value)))
    return words > len(value) or (words == len(value) and not value.isalnum())


def _mixed(value: str) -> bool:
    """Short, but of several kinds of characters that change too often for a name."""
    if _PLACEHOLDER.fullmatch(value) or value.startswith(
        ("/", "./", "http", "--", "@", "$", "%", "{", "<", "*")
    ):
        return False
    classes = [_class_of(char) for char in value]
    if "0" not in classes or not {"a", "A"} & set(classes):
        return _shifting(classes)
    return entropy(value) >= min(2.4, 0.75 * math.log2(len(value))) and _changes(classes) >= max(
        2, len(value) // 5
    )


def _shifting(classes: list[str]) -> bool:
    """Letters alone are random where their case changes all the time."""
    return {"a", "A"} <= set(classes) and _changes(classes) >= max(3, len(classes) // 4)


def _class_of(char: str) -> str:
    return "a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else "-"


def _changes(classes: list[str]) -> int:
    """How often the kind of character changes; a capital before small letters is how words begin."""
    return sum(a != b and (a, b) != ("A", "a") for a, b in pairwise(classes))


def _random(value: str) -> bool:
    """Letters and digits in a mix no person would type as a name: high entropy, no words, no code."""
    if _PLACEHOLDER.fullmatch(value) or value.startswith(("/", "./", "http", "--", "@")):
        return False
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    if not digits:
        return len(value) >= 16 and value.isalnum() and _shifting([_class_of(char) for char in value])
    if not letters or digits + letters < 0.7 * len(value):
        return False
    if ("_" in value or "-" in value) and _is_name(value) and digits * 5 < len(value):
        return False
    if re.search(r"[a-z]{8,}|[A-Z]{8,}", value) and digits < 3:
        return False  # a word; letters of both cases mixed are none
    if re.fullmatch(r"[A-Za-z_]+[\w.]*(?:\.[A-Za-z_]\w*)+|[a-z_]+\d{0,3}|[A-Z_]+\d{0,3}", value):
        return False
    return entropy(value) >= 3.0 + (0.3 if digits < 2 else 0)


def entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    counts = [text.count(char) for char in set(text)]
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)
