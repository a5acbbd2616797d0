"""Replaces secrets in text before it is sent to a summariser, exported or reported.

Secrets are recognised in three ways, without a list of issuers. By place: a value assigned to a secret name,
after a flag that takes one, in `user:password@`; then it counts whatever it looks like, except for exact
placeholders and, in code, identifiers. By randomness: a prefix, a separator and a long run that no person
would type. By format: key files, password hashes, webhooks. The search runs on bytes, so text without secrets
costs a few substring searches.
"""
# ruff: noqa: E501 (patterns that read better on one line)

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import msgspec

from refold.text.canonical import Canonical
from refold.text.patterns import lazy_pattern
from refold.text.redaction.assignments import assignments
from refold.text.redaction.mentions import passwords_beside, printed_secrets
from refold.text.redaction.secrets import (
    PLACEHOLDER,
    SECRET_FORMATS,
    SecretFinding,
    SecretFormat,
)
from refold.text.redaction.tables import cookies, logins_before_hosts, secrets_in_columns, secrets_in_inserts
from refold.text.redaction.tokens import tokens_in, wrapped_tokens
from refold.text.redaction.values import IDENTIFIER, TYPED_PASSWORD, is_chosen, is_common, is_random

_COLOUR = lazy_pattern(r"\x1b\[[0-9;]{0,16}m")
_SHORT = 240
"""Up to this many characters, one search for all literals is faster than one for each."""
_LITERALS = {
    literal.encode(): [row for row in SECRET_FORMATS if literal in row.literals]
    for literal in sorted({literal for row in SECRET_FORMATS for literal in row.literals})
}
_LETTERS = bytes(code if chr(code).isalpha() else ord(" ") for code in range(128)) + b" " * 128
_WORD_OF = {
    literal: max(literal.lower().translate(_LETTERS).split(), key=len, default=b"") for literal in _LITERALS
}
"""Longest word of each literal: a text without that word cannot contain the literal."""
_ANY_LITERAL = lazy_pattern(b"|".join(map(re.escape, _LITERALS)))
_KNOWN = 50
"""Most secret values of a text that are also searched for elsewhere in it."""


def redact(text: str) -> tuple[str, list[SecretFinding]]:
    """The text with every secret replaced by `[redacted:KIND]`, and the replacements in order. A value that
    is secret in one place is secret everywhere."""
    found = _found(text)
    if not found:
        return text, []
    found = sorted([*found, *_again(text, found)], key=lambda f: (f.start, -f.end))
    pieces: list[str] = []
    kept: list[SecretFinding] = []
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


def _again(text: str, found: list[SecretFinding]) -> Iterator[SecretFinding]:
    """Further occurrences of secret values, unless the value is a plain word."""
    values = {text[finding.start : finding.end]: finding.kind for finding in found}
    known = [
        value
        for value in values
        if 8 <= len(value) <= 200 and (is_random(value) or TYPED_PASSWORD.fullmatch(value))
    ]
    if known:
        pattern = "|".join(map(re.escape, sorted(known, key=len, reverse=True)[:_KNOWN]))
        for match in re.finditer(rf"(?<!\w)(?:{pattern})(?!\w)", text):
            yield SecretFinding(values[match[0]], match.start(), match.end())


_CUT = lazy_pattern(r"(?<=[\w=/+.~-]{12})…")
"""Where a text was cut, at the end of what may be a secret."""


def _found(text: str) -> list[SecretFinding]:
    if "…" in text:  # the end of what it stands behind; places stay the same
        text = _CUT.sub("\n", text)
    # One byte per character, so that places agree; bytes are searched several times faster than text.
    raw = text.encode("ascii", "replace")
    found = [*_found_in(text, raw), *wrapped_tokens(raw)]
    plain = Canonical(text, raw.lower())
    there = _found_in(plain.text, plain.text.encode("ascii", "replace")) if plain.text else ()
    # Without what stood between, a word may have grown together with what follows it: that is no beginning.
    found.extend(SecretFinding(f.kind, *plain.span(f.start, f.end)) for f in there if f.kind != "token")
    return found


def _found_in(text: str, raw: bytes) -> Iterator[SecretFinding]:
    if "\x1b" in text:  # a colour is no part of what it colours; places stay the same
        text = _COLOUR.sub(lambda colour: " " * len(colour[0]), text)
        raw = text.encode("ascii", "replace")
    tokens = list(tokens_in(text, raw))
    yield from (token for token in tokens if token.kind != "token")
    lowered = raw.lower()
    if len(raw) > _SHORT or _ANY_LITERAL.search(raw):
        words = b" ".join({*lowered.translate(_LETTERS).split()})
        for encoded, rows in _LITERALS.items():
            if _WORD_OF[encoded] in words and encoded in raw:
                for row in rows:
                    yield from _of_format(text, raw, encoded, row)
    yield from assignments(text, lowered)
    yield from cookies(text, lowered)
    yield from secrets_in_columns(text, lowered)
    yield from secrets_in_inserts(text, lowered)
    yield from logins_before_hosts(text)
    yield from passwords_beside(text, lowered)
    yield from printed_secrets(text)
    yield from (token for token in tokens if token.kind == "token")  # the least telling name


_ANYTHING = frozenset(("private-key", "ansible-vault", "ssh2-key", "putty-key", "webhook", "seed-phrase", "password-hash", "kubernetes-secret", "kubernetes-data"))  # fmt: skip


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when one of its literals first occurs: a text has few of the many formats."""
    return re.compile(pattern)


def _of_format(text: str, raw: bytes, literal: bytes, row: SecretFormat) -> Iterator[SecretFinding]:
    """Matches around each occurrence of a literal, which is far cheaper to find than the pattern."""
    pattern, at = _compiled(row.pattern), raw.find(literal)
    group = 1 if pattern.groups else 0
    while at >= 0:
        end = at + 1
        for back in row.before:
            match = pattern.match(text, at - back) if at >= back else None
            if match and (not row.in_line or _compiled(row.in_line).search(_line_before(text, at))):
                if _plausible(row.kind, match[group]):
                    yield SecretFinding(row.kind, match.start(group), match.end(group))
                end = max(end, match.end())
                break
        at = raw.find(literal, end)


def _line_before(text: str, at: int) -> str:
    """The command so far: the line, or the part after a pipe, at most 300 characters."""
    return re.split(r"[\n|;]|&&", text[max(0, at - 300) : at + 1])[-1]


def _plausible(kind: str, value: str) -> bool:
    """False for examples from documentation."""
    if kind in _ANYTHING:
        return True
    if kind == "url-token":
        return is_random(value)
    if PLACEHOLDER.fullmatch(value):
        return False
    if kind in ("login-call", "login", "key-in-a-call"):
        has_digit = any(map(str.isdigit, value))
        return (
            is_random(value)
            or is_chosen(value)
            or (has_digit and not is_common(value) and not value.isdigit())
        )
    if kind in ("authorization", "authorization-header"):
        return not IDENTIFIER.fullmatch(value) and "EXAMPLE" not in value and len(set(value[-16:])) > 4
    return True
