"""Replaces secrets in text before it is sent to a summariser, exported or reported.

Secrets are recognised in three ways, without a list of issuers. By place: a value assigned to a secret name,
after a flag that takes one, in `user:password@`; then it counts whatever it looks like, except for exact
placeholders and, in code, identifiers. By randomness: a prefix, a separator and a long run that no person
would type. By format: key files, password hashes, webhooks. The search runs on bytes, so text without secrets
costs a few substring searches.
"""
# ruff: noqa: E501 (patterns that read better on one line)

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import cast

import msgspec

from refold.text.canonical import Canonical
from refold.text.patterns import lazy_pattern
from refold.text.secrets import (
    ASSIGNED,
    ASSIGNED_VALUES,
    CODE_QUALIFIERS,
    CODES,
    CUES,
    IDS,
    KEY_QUALIFIERS,
    LETTER_PAIRS,
    LIKELY,
    NEUTRAL,
    NOT_ENDINGS,
    OTHER_VALUES,
    PAIRED,
    PASSWORDS,
    PLACEHOLDER,
    PLAIN_NAMES,
    PLURALS,
    PREFIXES,
    SECRET_ENDINGS,
    SECRET_FORMATS,
    TECHNICAL,
    TOKEN_QUALIFIERS,
    TOKEN_SHAPES,
    SecretFormat,
)


class SecretFinding(msgspec.Struct, frozen=True):
    """A replaced secret: its kind and its place in the original text, never its value."""

    kind: str
    start: int
    end: int

    @property
    def mark(self) -> str:
        """The replacement."""
        return f"[redacted:{self.kind}]"


SECRET_KINDS: tuple[str, ...] = (
    *dict.fromkeys((*(row.kind for row in SECRET_FORMATS), *TOKEN_SHAPES, *PREFIXES)), "token", "cookie",
)  # fmt: skip

# ── the pass ────────────────────────────────────────────────────────────────────────────────────

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
_LINE_SIZE = 1000
"""Characters of a line that are read before a value."""


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
        value for value in values if 8 <= len(value) <= 200 and (_random(value) or _TYPED.fullmatch(value))
    ]
    if known:
        pattern = "|".join(map(re.escape, sorted(known, key=len, reverse=True)[:_KNOWN]))
        for match in re.finditer(rf"(?<!\w)(?:{pattern})(?!\w)", text):
            yield SecretFinding(values[match[0]], match.start(), match.end())


def _found(text: str) -> list[SecretFinding]:
    # One byte per character, so that places agree; bytes are searched several times faster than text.
    raw = text.encode("ascii", "replace")
    found = [*_found_in(text, raw), *_wrapped(raw)]
    plain = Canonical(text, raw.lower())
    there = _found_in(plain.text, plain.text.encode("ascii", "replace")) if plain.text else ()
    # Without what stood between, a word may have grown together with what follows it: that is no beginning.
    found.extend(SecretFinding(f.kind, *plain.span(f.start, f.end)) for f in there if f.kind != "token")
    return found


def _found_in(text: str, raw: bytes) -> Iterator[SecretFinding]:
    if "\x1b" in text:  # a colour is no part of what it colours; places stay the same
        text = _COLOUR.sub(lambda colour: " " * len(colour[0]), text)
        raw = text.encode("ascii", "replace")
    tokens = list(_tokens(text, raw))
    yield from (token for token in tokens if token.kind != "token")
    lowered = raw.lower()
    if len(raw) > _SHORT or _ANY_LITERAL.search(raw):
        words = b" ".join({*lowered.translate(_LETTERS).split()})
        for encoded, rows in _LITERALS.items():
            if _WORD_OF[encoded] in words and encoded in raw:
                for row in rows:
                    yield from _of_format(text, raw, encoded, row)
    yield from _assignments(text, lowered)
    yield from _cookies(text, lowered)
    yield from _columns(text, lowered)
    yield from _rows(text, lowered)
    yield from _before_hosts(text)
    yield from _beside(text, lowered)
    yield from _printed(text)
    yield from (token for token in tokens if token.kind == "token")  # the least telling name


# ── secrets with a form of their own ────────────────────────────────────────────────────────────

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
        return _random(value)
    if PLACEHOLDER.fullmatch(value):
        return False
    if kind in ("login-call", "login", "key-in-a-call"):
        has_digit = any(map(str.isdigit, value))
        return (
            _random(value) or _chosen(value) or (has_digit and not _is_plain(value) and not value.isdigit())
        )
    if kind in ("authorization", "authorization-header"):
        return not _IDENTIFIER.fullmatch(value) and "EXAMPLE" not in value and len(set(value[-16:])) > 4
    return True


# ── tokens by their shape ───────────────────────────────────────────────────────────────────────

_RUN = 18
"""Least length of the unbroken run in a token."""
_UNBROKEN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.:~-")
_SHAPE = bytes(ord("a") if code in _UNBROKEN else ord(" ") for code in range(256))
_LINES = bytes(code if code == 10 else 10 if code == 13 else _SHAPE[code] for code in range(256))
_LINE_OF_RUN = b"a" * 8 + b"\n"
_WRAP = lazy_pattern(rb"([\w+/=.:~-]{8,300}+)\r?\n[ \t]{0,16}+([\w+/=.~-]{4,300}+)")
_PLAIN = b"abcdefghijklmnopqrstuvwxyz_+/=.:~-"
_KINDS = (*TOKEN_SHAPES, *PREFIXES)
_KNOWN_TOKEN = lazy_pattern(
    r"(?<![A-Za-z0-9])(?:"
    + "|".join(
        (
            *(rf"({shape})(?![A-Za-z0-9])" for shape in TOKEN_SHAPES.values()),
            *(rf"((?:{'|'.join(map(re.escape, row.split()))})[\w+/-]{{10,300}}={{0,2}}(?:\.[\w-]{{20,300}}){{0,2}})" for row in PREFIXES.values()),
        )
    )
    + ")"
)  # fmt: skip
_PIECE = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.~-]{18,400}+")
_BASE64 = lazy_pattern(
    r"(?<![A-Za-z0-9+/._-])(?:[A-Za-z][A-Za-z0-9]{1,11}_)?[A-Za-z0-9+][A-Za-z0-9+/]{31,200}+={0,2}(?![\w+/=.-])"
)
_HEAD = lazy_pattern(r"(?=\d{0,15}[A-Za-z])[A-Za-z0-9]{1,16}[_.~-]|(?<=[_.~-])v?\d{1,2}[_.~-]")
_CACHE_KEY = lazy_pattern(r"[A-Za-z][\w.-]{0,200}-[0-9a-f]{32,64}")
_HEX = lazy_pattern(r"[0-9a-f]+|[0-9A-F]+")
_HEXES = lazy_pattern(r"[0-9a-f]{10,}(?:[_-][0-9a-f]{10,})*")
_UUID = lazy_pattern(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-")
_SEGMENT = lazy_pattern(r"[A-Za-z0-9]{8,}")
_HASHED = lazy_pattern(r"(?i)(?:sha\d*|md5|hash\w*|digest|integrity|checksum|fingerprint|etag|commit|revision|blob|h1|base64|uuid|certificate[\w-]*|public[\w-]*|image|nonce|boundary|trace\w*|span\w*)[^\w\n]{0,8}[\w ]{0,12}[^\w\n]{0,4}$")  # fmt: skip


def _runs(raw: bytes) -> Iterator[tuple[int, int]]:
    """Long unbroken runs other than plain words: a few per cent of ordinary text, and the only place for
    tokens."""
    shape = raw.translate(_SHAPE) + b" "
    least = b"a" * _RUN
    at = shape.find(least)
    while at >= 0:
        end = shape.find(b" ", at)
        if raw[at:end].translate(None, _PLAIN):
            yield at, end
        at = shape.find(least, end)


def _tokens(text: str, raw: bytes) -> Iterator[SecretFinding]:
    for start, end in _runs(raw):
        for match in _KNOWN_TOKEN.finditer(text, start, end):
            value = match[0]
            if "EXAMPLE" not in value and len(set(value[-16:])) > 4:
                yield SecretFinding(_KINDS[cast("int", match.lastindex) - 1], match.start(), match.end())
        for piece in _PIECE.finditer(text, start, end):
            if _is_token(piece[0]) and not _names_content(text, start, piece.start(), piece.end()):
                yield SecretFinding("token", piece.start(), piece.start() + len(piece[0].rstrip(".")))
        for piece in _BASE64.finditer(text, start, end):
            if _is_base64(piece[0]) and not _names_content(text, start, piece.start(), piece.end()):
                yield SecretFinding("token", piece.start(), piece.end())


def _is_token(piece: str) -> bool:
    """Whether a run is a token: a prefix, a separator and characters that no person types, or enough of the
    latter without a prefix."""
    if _UUID.search(piece) or "EXAMPLE" in piece:
        return False
    at = 0
    for _ in range(3):
        head = _HEAD.match(piece, at)
        if not head:
            break
        if at == 0 and head[0][:-1].lower() in IDS:
            return False
        at = head.end()
        if _is_body(piece[at:], 20):
            return True
    return at == 0 and _is_body(piece, 32) and not _HEX.fullmatch(piece)


def _is_body(value: str, least: int) -> bool:
    size = len(value)
    if size < least:
        return False
    segments = _SEGMENT.findall(value)
    if not segments or min(map(len, value.split("."))) < 16 or value.endswith(("Key", "Token")):
        return False  # names are joined by points, too
    classes = [_class_of(char) for char in value]
    digits, upper, lower = (classes.count(kind) for kind in "0Aa")
    if _HEXES.fullmatch(value):
        return size >= 32 and digits >= 0.3 * size and upper + lower >= 4
    if not (upper and lower) and (len(segments[0]) < size or size < (24 if least == 20 else 40)):
        return False  # in one case alone, words and numbers are joined to names
    return (
        digits >= (0 if upper and lower and size >= 30 else 1 if upper and lower else 2)
        and digits <= 0.6 * size
        and _changes(classes) >= (0.15 if size >= 40 else 0.2 if digits >= 0.05 * size else 0.25) * size
        and entropy(value) >= 3.2
        and not _is_name(value, 4 if value.isalnum() else 3)
    )


def _is_base64(value: str) -> bool:
    classes = [_class_of(char) for char in value]
    return (
        (value[-1] == "=" or "+" in value or "/" in value)
        and len(value) >= 40
        and {"a", "A", "0"} <= set(classes)
        and _changes(classes) >= 0.35 * len(value)
        and not _is_name(value)
    )


def _names_content(text: str, run: int, start: int, end: int) -> bool:
    """Whether this is a hash, a picture or a certificate: derived from content, not secret."""
    if text[start - 1 : start] in ("/", "\\", "@", "#") and "://" not in text[max(0, start - 200) : start]:
        return True
    if (
        text[end : end + 1] in ("/", "+")
        or text[start - 1 : start] == "+"
        or any(_HASHED.search(text, max(0, at - 40), at) for at in {run, start})
    ):
        return True
    line, behind = text.rfind("\n", max(0, start - 400), start) + 1, text.find("\n", end, end + 400)
    if text[line:start].strip(" \t\"'b(+") or (behind >= 0 and text[end:behind].strip(" \t\"'),;+\\r\r")):
        return False
    # A line of many: not a token, but what a file is made of.
    above = text[max(0, line - 30) : max(0, line - 1)].rpartition("\n")[2]
    below = text[behind + 1 : behind + 31].partition("\n")[0].strip(" \t\"'b(") if behind >= 0 else ""
    sides = above.strip(" \t\"'),;+\\"), below
    return any(_BLOB.search(side) and not _KNOWN_TOKEN.match(side) for side in sides)


_BLOB = lazy_pattern(r"^[A-Za-z0-9+/=]{16,}$")


def _wrapped(raw: bytes) -> Iterator[SecretFinding]:
    """Tokens with a known prefix that continue on the next line, indented or not."""
    for wrap in _wraps(raw):
        if not (wrap[2].isalnum() and _mixed(wrap[2].decode())):
            continue  # what follows is a line of its own
        joined = (wrap[1] + wrap[2]).decode()
        for match in _KNOWN_TOKEN.finditer(joined):
            value = match[0]
            if (
                match.start() < len(wrap[1]) < match.end()
                and "EXAMPLE" not in value
                and len(set(value[-16:])) > 4
            ):
                start, end = wrap.start(1) + match.start(), wrap.start(2) + match.end() - len(wrap[1])
                yield SecretFinding(_KINDS[cast("int", match.lastindex) - 1], start, end)


def _wraps(raw: bytes) -> Iterator[re.Match[bytes]]:
    """A run at the end of a line, with the start of the next."""
    shape = raw.translate(_LINES)
    at = shape.find(_LINE_OF_RUN)
    while at >= 0:
        start = max(shape.rfind(b" ", 0, at), shape.rfind(b"\n", 0, at)) + 1
        wrap = _WRAP.match(raw, start) if raw[start : at + 8].translate(None, _PLAIN) else None
        if wrap:
            yield wrap
        at = shape.find(_LINE_OF_RUN, at + len(_LINE_OF_RUN))


# ── cookies, tables, rows ───────────────────────────────────────────────────────────────────────

_COOKIE = lazy_pattern(r"(?i)(?<![\w])cookie\\?[\"']?\s{0,3}:\s{0,3}[\"']?([^\n\"']{8,4000})")
_CRUMB = lazy_pattern(r"[^\s=;,]{1,80}=([^\s=;,\"']{16,4000})")
_HEADING = lazy_pattern(
    r"(?P<cells>(?:\"[\w .-]{1,60}\"|[\w\".-]{1,60})(?P<mark>[,;\t])(?:\"[\w .-]{1,60}\"|[\w\".-]{1,60})(?:(?P=mark)(?:\"[\w .-]{1,60}\"|[\w\".-]{1,60})){0,40})\r?\n"
    r"|(?P<row>[ \t]{0,16}\|?[\w \"`*.-]{1,60}(?P<bar>\|)[\w \"`*.|-]{1,2000})\r?\n[ \t]{0,16}[-+|: =]{3,2000}(?:\r?\n|$)"
)
"""Heading of a table: nothing but names, or names between bars with a rule below."""
_LINE = lazy_pattern(r"[^\n]{1,4000}")
_INSERT = lazy_pattern(r"(?i)\(([^()\n]{1,600})\)\s{0,8}VALUES\s{0,8}(?=\()")
_TUPLE = lazy_pattern(r"\s{0,8}\(((?:[^()'\n]|'(?:[^'\n]|''){0,400}'){1,2000}+)\)\s{0,4},?")
_FIELD = lazy_pattern(r"\s{0,8}+(?:'((?:[^'\n]|''){0,400}+)'|[^,'\n]{1,400}+)\s{0,8}+(?:,|$)")


def _cookies(text: str, lowered: bytes) -> Iterator[SecretFinding]:
    at = lowered.find(b"cookie")
    while at >= 0:
        header = _COOKIE.match(text, at)
        crumbs = _CRUMB.finditer(text, header.start(1), header.end(1)) if header else ()
        for crumb in crumbs:
            if _random(crumb[1]):
                yield SecretFinding("cookie", crumb.start(1), crumb.end(1))
        at = lowered.find(b"cookie", header.end() if header else at + 6)


def _columns(text: str, lowered: bytes) -> Iterator[SecretFinding]:
    """Cells of a table in a column with a secret name."""
    read = 0
    for keyword in (b"passw", b"pwd", b"secret"):
        at = lowered.find(keyword, read)
        while at >= 0:
            start = text.rfind("\n", max(0, at - _LINE_SIZE), at) + 1
            head = _HEADING.match(text, start)
            read = head.end() if head else at + 1
            if head:
                mark = head["mark"] or head["bar"]
                heads = _cells(head["cells"] or head["row"], mark)
                wanted = [
                    n for n, (_, _, name) in enumerate(heads) if _certainty(name.replace(" ", "_")) == 3
                ]
                line = _LINE.match(text, read) if wanted else None
                while line and len(cells := _cells(line[0], mark)) == len(heads):
                    for a, b, value in (cells[n] for n in wanted):
                        if b - a >= 4 and not PLACEHOLDER.fullmatch(value):
                            yield SecretFinding("assignment", line.start() + a, line.start() + b)
                    read = line.end()
                    line = _LINE.match(text, read + 1)
            at = lowered.find(keyword, read)


def _cells(line: str, mark: str) -> list[tuple[int, int, str]]:
    """The cells of a line with their places, without surrounding spaces and quotes."""
    found: list[tuple[int, int, str]] = []
    at = 0
    for cell in line.split(mark):
        bare = cell.strip(" \t\r\"'`*")
        start = at + cell.find(bare)
        found.append((start, start + len(bare), bare))
        at += len(cell) + len(mark)
    return found


def _rows(text: str, lowered: bytes) -> Iterator[SecretFinding]:
    """Values that SQL inserts into a column of passwords."""
    at = lowered.find(b"insert into ")
    while at >= 0:
        insert = _INSERT.search(text, at, at + 900)
        names = insert[1].split(",") if insert else []
        wanted = [n for n, name in enumerate(names) if _certainty(name.strip(' `"[]')) == 3]
        row = _TUPLE.match(text, insert.end()) if insert and wanted else None
        while row:
            fields = list(_FIELD.finditer(text, row.start(1), row.end(1)))
            for n in wanted:
                if (
                    n < len(fields)
                    and len(fields[n][1] or "") >= 4
                    and not PLACEHOLDER.fullmatch(fields[n][1])
                ):
                    yield SecretFinding("assignment", fields[n].start(1), fields[n].end(1))
            row = _TUPLE.match(text, row.end())
        at = lowered.find(b"insert into ", at + 12)


_MAIL_AND_PASSWORD = lazy_pattern(
    r"@[\w-]{1,60}+\.[\w.]{2,20}+:([^\s\"'`,;/:()<>{}\[\]@]{6,100}+)(?=[\s\"'`.,;)|]|$)"
)
_USER_AND_PASSWORD = lazy_pattern(r"[\w.\\/+%-]{1,80}:([^\s:/@\"'<>`(){}\[\]]{4,100})")


_HOST = lazy_pattern(r"(?!sha256)[A-Za-z][\w-]{0,60}(?:\.[\w-]{1,60}){0,6}(?::\d{2,5}|(?=[/\s\"']|$))")


def _before_hosts(text: str) -> Iterator[SecretFinding]:
    """`user:password@host` without a scheme."""
    at = text.find("@")
    while at >= 0:
        start = at
        while (
            start > max(0, at - 160) and not text[start - 1].isspace() and text[start - 1] not in "\"'`=<([,@"
        ):
            start -= 1
        pair = (
            _USER_AND_PASSWORD.fullmatch(text, start, at)
            if at - start > 6 and text[at + 1 : at + 2].isalnum()
            else None
        )
        if pair and (
            _chosen(pair[1])
            or text.startswith(("tcp(", "unix("), at + 1)
            or (_is_memorable(pair[1]) and _HOST.match(text, at + 1))
        ):
            yield SecretFinding("login", pair.start(1), at)
        mail = _MAIL_AND_PASSWORD.match(text, at)
        if mail and _chosen(mail[1]):
            yield SecretFinding("login", mail.start(1), mail.end(1))
        at = text.find("@", at + 1)


# ── names ───────────────────────────────────────────────────────────────────────────────────────

_STEMS = (b"pass", b"pwd", b"pw", b"secret", b"token", b"key", b"cred", b"auth", b"sess", b"psk", b"salt", b"sig", b"sid", b"pin",
          b"otp", b"code", b"jwt", b"dsn", b"mnemonic", b"login", b"community", b"hmac", b"cvv")  # fmt: skip
_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME_SHAPE = (
    bytes(ord("a") if chr(code).isalnum() or chr(code) in "_-" else ord(" ") for code in range(128))
    + b" " * 128
)
_SPACED = frozenset(("key", "code", "token", "phrase", "keys", "codes", "data", "string"))


def _parts(name: str) -> list[str]:
    return [part.lower() for part in _PART.findall(name)]


@lru_cache(4096)
def _certainty(name: str) -> int:
    """3: the value is always a secret; 2: if it looks like one; 1: the name mentions one; 4: if it is a short
    number; 0: never."""
    parts = _parts(name)
    while len(parts) > 1 and (parts[-1] in NEUTRAL or parts[-1].isdigit()):
        parts.pop()
    if not parts or PLAIN_NAMES & set(parts):
        return 0
    parts[-1] = PLURALS.get(parts[-1], parts[-1])
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last in ("code", "codes") and before in ("backup", "recovery"):
        return 3
    if last in CODES and (last != "code" or before in CODE_QUALIFIERS):
        return 4
    if last in PASSWORDS or _ends(last) or (last == "seed" and before in CODES):
        return 3
    if last == "token":
        return 3 if before in TOKEN_QUALIFIERS or (before and name.isupper()) else 2
    if last == "key" and (before in KEY_QUALIFIERS or _ends(before)):
        return 3
    if last in LIKELY or name == "code" or last.endswith(("auth", "token", "sessid")):
        return 2
    return int(
        any(
            part in ("token", "secret", "password", "credential", "passwd", "apikey", "signature")
            or (part == "key" and n and parts[n - 1] in KEY_QUALIFIERS)
            for n, part in enumerate(parts)
        )
    )


def _ends(part: str) -> bool:
    return part.endswith(SECRET_ENDINGS) and part not in NOT_ENDINGS


# ── values that stand where a secret stands ─────────────────────────────────────────────────────

_VALUE = lazy_pattern(
    "|".join(
        (
            PAIRED.pattern,
            rf"{ASSIGNED}(?:{'|'.join(place.pattern for place in ASSIGNED_VALUES)})",
            *(place.pattern for place in OTHER_VALUES),
        )
    ),
    re.M,
)
"""A value after a secret name, in any of the known places."""
_TYPED = lazy_pattern(
    r"(?=[^\s]{0,40}[a-z])(?=[^\s]{0,40}\d)(?=[\w.-]{1,40}[!#$%^*?~+@&])[A-Za-z\d](?:[\w!#$%^*?~+&.-]|@(?![\w-]+\.)){5,40}"
)
"""Letters, digits and symbols mixed as in a password and nothing else."""
_EXPRESSION = lazy_pattern(
    r"(?:[A-Za-z_]++\d?+|\d++)[*+]{1,2}+[\w*+.-]*+|[\w-]++#(?:\d++|[a-z]++-[\d.]++)|v?\d++(?:\.\d++)++[*+]|[^%]++%[0-9A-F]{2}[^\s]*+|.{0,20}?a-zA-Z.{0,20}"
)
"""Looks like a password, but is a sum, a reference to an issue, a version, an address or a character
class."""
_NUMBERED_NAME = lazy_pattern(r"[A-Za-z]++\d{1,4}")
_MEMORABLE = lazy_pattern(r"(?=[^\d\s]{0,60}\d)[A-Za-z\d][\w!#$%^*?~+@&-]{5,60}")
_STANDARD = lazy_pattern(
    r"(?i)(?:sha|pbkdf|argon|aes|rsa|utf|tls|ssl|oauth|http|base|scram|md|hmac|[hre]s|ecdsa|iso|cp|latin|x|v|py|python|ipv?|rfc|pep|gh|issue|pr)[\d_#-]"
)
"""Start of names of algorithms, encodings and versions."""
_JOINED = lazy_pattern(
    r"(?=[^\d\s]{1,60}\d)[A-Za-z]{3,20}(?:-[A-Za-z\d]{2,20}){1,5}|\d{2,10}(?:-[A-Za-z\d]{2,20}){1,5}"
)
_PATTERN = lazy_pattern(r"\\[wWdDsSbB.*+?()|$]|\[\^")
"""A regular expression: a value with a backslash that is not a secret."""
_CLASS_ENDINGS = ("Key", "Token", "Secret", "Password")
"""Endings of class names, such as Ed25519PrivateKey."""
_LITERAL_PLACES = ("quoted", "divided", "escaped")
_OPEN_VARIABLE = lazy_pattern(r"\$\{[\w.]{0,60}$")
_FALLBACK = lazy_pattern(r"(?::[-=]?|-)(?P<fallback>[^\s{}$\"'`]{4,200}+)\}")
"""Default of an unset variable: `${DB_PASSWORD:-…}`."""
_LINE_START = lazy_pattern(r"\s*(?:export\s|set\s|[+-]{1,2}\s?|\d+[|\t]\s*)?[\w.]*")
_WHOLE = lazy_pattern(
    r"=(?P<bare>(?![A-Za-z_][\w.]*[(\[{])[^\s\"'`$(\[{<](?:(?![&;,][\w.-]{1,40}[=:])[^\s\"'`]){3,4000}+)(?<![,;)])[ \t]*\r?$",
    re.M,
)
"""A line with nothing but an assignment: the value is the rest of it."""
_CHANGED = lazy_pattern(r"[ \t]{0,8}(?:->|=>|→)[ \t]{0,8}[\"']([^\s\"']{4,200})[\"']")
"""`"old" -> "new"`: both values are secret."""
_TRANSPARENT = lazy_pattern(
    r"(?:^|[^\w.])(?:Some|Ok|Just|Optional\.of|String|String::from|(?:std::)?string|SecretStr|Secret|SecretString|Text|bytes|str|Buffer\.from|b64decode|atob|N)?[({\[]\s*[@bruNfL]?[\"']$"
)
"""A value in brackets or in a type conversion."""
_DIRECTIVE = lazy_pattern(r"\s*(?:[\w.-]+\s){1,6}")
_WHERE = lazy_pattern(
    r"^(?:<\w{1,8}>){1,2}|^[\w./-]{1,200}:\d{1,7}[:-]|(?<=[\s>+*(-])[\w.-]{1,60}\.$|^[\w.-]{1,60}\.$"
)
"""Text before a name that says nothing about it: file and line, names of parents."""
_IDENTIFIER = lazy_pattern(r"(?:[_.]?(?:[A-Z]?[a-z]{2,}+|[A-Z]{2,}+(?![a-z])|[A-Z](?=[A-Z]|\b|_)))++")
"""An identifier, which is not a secret where code is possible."""
_CAMEL = lazy_pattern(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_DOTTED = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_WORD = lazy_pattern(r"[A-Z]?[a-z]{3,}|[A-Z][a-z]{2}|(?<![A-Za-z])[A-Z]{3,}(?![a-z])")
_WORD_ALONE = lazy_pattern(r"[a-z]+|[A-Z_]+|[A-Z][a-z]+")
_WORD_AND_NUMBER = lazy_pattern(r"[A-Za-z]{4,}(?:\d{2,}|[_.-]\d{3,})")
_FIRST_ARGUMENT = lazy_pattern(
    r"(?i)(?:set\w{0,20}|define|put|putenv|add|insert|getenv|get|fetch|environ\.get|\w{1,30}field)\(\s?(?:[\"']\w{1,20}[\"'],\s?)?[\"'][\w.]{0,40}$"
)
"""A call that sets a value for its first argument."""
_SETTER = lazy_pattern(r"(?i)(?:set|with)[_A-Z]")
_SETS = lazy_pattern(
    r"(?i)(?:^|\s)(?:ENV|ARG|setenv|setx|set|config|export|set-env|env:set)(?:\s--?\w{1,12}|\s\w{1,20}(?=\s))?[\s(]\S*$"
)
"""Commands followed by a name and its value."""
_LIST = lazy_pattern(r"(?i)\b(?:user(?:name)?|login|machine|ssid|root|enable|admin)\b[^\n]{0,120}$")
_WORDS_BEFORE = lazy_pattern(
    r"^(?!\s*(?:def|class|return|if|elif|lambda|assert)\b)[^(]*[\w'\"/:\]-]\s(?<!\bwhere\s)(?<!\band\s)(?<!\bset\s)$",
    re.I,
)
"""A command or a log, in which pairs follow each other without commas."""
_LINE_BEGINS = lazy_pattern(
    r"(?i)[\s>+*(-]*(?:(?:my|our|the|your|old|new|temporary|initial|default)\s(?:\w{1,20}\s)?)?"
)
_SECTION = lazy_pattern(r"\[[^\]\n]{1,80}\]\s*")
_PAIR = lazy_pattern(r"[ \t]*(?:- )?[\w.-]+:(?:[ \t]+[^\s{\[(][^,;{(\n]*)?")
_SETTING = lazy_pattern(r"\s*(?:[\w.-]+\s*[=:]|[#;]|$)")
_CONNECTED = lazy_pattern(
    r"(?:[ \t](?:from[ \t]\S{1,80}[ \t]to|is|was|to|from|be|are|as|now|set|é|è|es|est|ist|lautet|=)|[:?][ \t]A:|:)[ \t]{1,2}[\"'`«“]?([^\s\"'`«»“”()\[\]{}<>|]{6,80}+)(?![(\[{])"
)
"""What connects a word for a password with the password, in a sentence."""
_SPOKEN = lazy_pattern(r"[\w!?'-]{1,20}(?: [\w!?'-]{1,20}){2,11}")
_INSTRUCTION = lazy_pattern(
    r"(?i)\b(?:enter|your|the|for|please|must|is|a|an|to|of|and|or|phrase|password)\b"
)
_PHRASE = lazy_pattern(r"(?:[a-z]{3,8} ){11,23}[a-z]{3,8}")


def _assignments(text: str, lowered: bytes) -> Iterator[SecretFinding]:
    """Values assigned to secret names."""
    shape = b" " + lowered.translate(_NAME_SHAPE) + b" "
    read: set[int] = set()
    for stem in _STEMS:
        at = lowered.find(stem)
        while at >= 0:
            behind = at + len(stem)
            start = max(shape.rfind(b" ", at - 40 if at > 40 else 0, at + 1), at - 40)
            end = shape.find(b" ", behind + 1, behind + 25) - 1
            end = end if end >= 0 else min(behind + 24, len(text))
            if end not in read:
                read.add(end)
                if _certainty(text[start:end]) or end - start <= 6:
                    yield from _given(text, start, end)
            at = lowered.find(stem, end)


def _given(text: str, start: int, end: int) -> Iterator[SecretFinding]:
    name = text[start:end]
    if end < len(text) and name.endswith("-") and text[end] == ">":  # `password->x`
        name, end = name[:-1], end - 1
    if name in _SPACED or name.lower() in _SPACED:
        word = text[max(0, start - 16) : start].rpartition("\n")[2]
        qualifier = re.split(r"[ -]", word[:-1])[-1].strip("\"'`*([") if word.endswith(" ") else ""
        name = f"{qualifier}_{name}" if qualifier.isalnum() else name
    certainty = _certainty(name)
    if not certainty:
        return
    before = text[max(0, start - _LINE_SIZE) : start].rpartition("\n")[2]
    match = (_OPEN_VARIABLE.search(before) and _FALLBACK.match(text, end)) or (
        (name.isupper() or _LINE_START.fullmatch(before)) and _WHOLE.match(text, end)
    )
    match = match or _VALUE.match(text, end)
    if targets := _TARGETS.fullmatch(before):
        match = _nth_literal(text, end, targets[0].count(",")) or match
    if match:
        place = cast("str", match.lastgroup)
        value = match[place].strip("\"'") if place not in _LITERAL_PLACES else match[place]
        value = value.rstrip(".:") if place in ("bare", "said", "flag") else value
        known = "".join(value.split()) if place not in ("phrase", "spoken") else value
        if "=" in known and _certainty(known.partition("=")[0]) == 3:
            pass  # `password=password=…`: the next name has the value
        elif known and _is_secret(
            name, certainty, place, text[end : match.start(place)], known, text, start, match.end()
        ):
            at = match.start(place) + match[place].find(value)
            size = len(value)
            if place in _LITERAL_PLACES and (changed := _CHANGED.match(text, match.end())):
                yield SecretFinding("assignment", changed.start(1), changed.end(1))
            yield SecretFinding("assignment", at, at + size)
            return
    if certainty == 3 and name != "pass":
        yield from _near(text, end)
    elif certainty == 4:
        yield from (
            SecretFinding("assignment", said.start(1), said.start(1) + len(said[1].rstrip(".,;:")))
            for said in _connected(text, end)
            if said[1].rstrip(".,;:").isdigit()
        )


def _nth_literal(text: str, at: int, number: int) -> re.Match[str] | None:
    """`user, password = "bob", "…"`: the value at the position of its name."""
    sign = _EQUALS.match(text, at)
    literal = sign and _LITERAL.match(text, sign.end())
    for _ in range(number):
        literal = literal and _LITERAL.match(text, literal.end())
    return literal


_TARGETS = lazy_pattern(r"[ \t]*(?:let |const |var |my )?(?:[\w.$@]{1,60},[ \t]?){1,4}")
_EQUALS = lazy_pattern(r"[ \t]{0,8}:?=[ \t]{0,8}(?=[\"'])")
_LITERAL = lazy_pattern(r"[\"'](?P<quoted>[^\s\"']{1,200})[\"'][ \t]*,?[ \t]*")


def _connected(text: str, end: int) -> Iterator[re.Match[str]]:
    """What may be the value of a word, in the rest of its line."""
    stop = text.find("\n", end, end + 180)
    return _CONNECTED.finditer(text, end, stop if stop >= 0 else min(len(text), end + 180))


def _near(text: str, end: int) -> Iterator[SecretFinding]:
    """Unmistakable passwords on a line that mentions one: `set the root password to …`, `use … as the
    password`."""
    if announced := _ANNOUNCED.match(text, end):
        yield from _alone_in_lines(text, announced.end())
    for said in _connected(text, end):
        value = said[1].rstrip(".,;:")
        if (_chosen(value) and not TECHNICAL.fullmatch(value)) or _is_memorable(value):
            yield SecretFinding("assignment", said.start(1), said.start(1) + len(value))
            break
    start, line = (
        text.rfind("\n", max(0, end - 120), end) + 1 or max(0, end - 120),
        text.find("\n", end, end + 120),
    )
    for token in _TOKEN.finditer(text, start, line if line >= 0 else min(len(text), end + 120)):
        value = token[0].rstrip(".,;:")
        if (
            _SAYS_SO.search(value)
            or text[token.end() : token.end() + 1] in ("(", "[")
            or _HEX.fullmatch(value)
        ):
            continue  # a name, or a commit
        if _TYPED.fullmatch(value) or (len(value) >= 8 and value.isalnum() and _chosen(value)):
            yield SecretFinding("assignment", token.start(), token.start() + len(value))


_ANNOUNCED = lazy_pattern(r"[^\n]{0,100}:[ \t]*\r?\n(?:[ \t]*\r?\n){0,2}")
_ALONE_IN_LINE = lazy_pattern(
    r"[ \t]{0,16}(?:\d{1,2}[.)][ \t]{1,2}|[-*•][ \t]{1,2})?([\w+/=.~!#$%^*?@&-]{8,200}+)[ \t]*(?:\r?\n|$)"
)
_PROMPT = lazy_pattern(r"[$#%>] ([a-zA-Z][^\n]{3,400})\n")
_PRINTS = lazy_pattern(
    r"(?:sudo )?(?:(?:go)?pass|op|bw|pwgen|openssl rand|security|vault|cat|head|tail|less|more|bat|type|Get-Content|echo|printenv|kubectl|oc|docker|aws|gcloud|az|gh|heroku|git config|grep)\b"
)
_ABOUT_SECRETS = lazy_pattern(
    r"passw?|secret|token|credential|\.key\b|keyvault|pwgen|openssl rand|\bop read|\bbw get"
)


def _printed(text: str) -> Iterator[SecretFinding]:
    """What a command at a prompt prints that shows a secret, or a file that is named after one."""
    for prompt in _PROMPT.finditer(text):
        if _PRINTS.match(prompt[1]) and _ABOUT_SECRETS.search(prompt[1]):
            yield from _alone_in_lines(text, prompt.end())


def _alone_in_lines(text: str, at: int) -> Iterator[SecretFinding]:
    """Lines from there on that are nothing but a value, where a secret was announced."""
    while line := _ALONE_IN_LINE.match(text, at):
        value = line[1]
        if not (_random(value) or _chosen(value) or _is_memorable(value)) or TECHNICAL.fullmatch(value):
            return
        yield SecretFinding("assignment", line.start(1), line.end(1))
        at = line.end()


def _beside(text: str, lowered: bytes) -> Iterator[SecretFinding]:
    """Unmistakable passwords on a line about users, logins or encryption."""
    read: set[int] = set()
    for cue in CUES:
        at = lowered.find(cue)
        while at >= 0:
            start = max(text.rfind("\n", max(0, at - 120), at) + 1, at - 120)
            end = text.find("\n", at, at + 160)
            end = end if end >= 0 else min(len(text), at + 160)
            if end not in read:
                read.add(end)
                for token in _ALONE.finditer(text, start, end):
                    value = token[0].rstrip(".")
                    if (
                        _generated(value)
                        and not _HEX.fullmatch(value.removeprefix("0x"))
                        and not _SAYS_SO.search(value)
                    ):
                        yield SecretFinding("assignment", token.start(), token.start() + len(value))
            at = lowered.find(cue, end)


_ALONE = lazy_pattern(
    r"(?<![^\s\"'`(\[{=:,;|>@])(?=[^\s\d]{0,39}\d)[A-Za-z0-9!#%][\w!#$%^*?~+&.-]{7,39}+(?![^\s\"'`)\]},;|<:@])"
)
"""A token with a digit between spaces, quotes or brackets."""
_SAYS_SO = lazy_pattern(r"(?i)key|pass|token|secret|credential|auth|\.\w*[A-Z]")
_TOKEN = lazy_pattern(r"[^\s\"'`()\[\]{}<>|]{1,80}")


def _is_secret(
    name: str, certainty: int, place: str, sign: str, value: str, text: str, start: int, end: int
) -> bool:
    if place == "quoted" and "\\" in value and _PATTERN.search(value):
        return False
    if place == "quoted" and sign[-2:-1] == "f" and "{" in value:
        return False  # a template, which is filled in elsewhere
    if PLACEHOLDER.fullmatch(value) or (
        _is_place(value) and not (place in _LITERAL_PLACES and value[0] == "@")
    ):
        return False
    if certainty == 4:
        return (
            value.isdigit()
            and 4 <= len(value) <= 8
            and place in (*_LITERAL_PLACES, "bare", "told", "said", "flag", "cell", "below")
        )
    before = text[max(0, start - _LINE_SIZE) : start].rpartition("\n")[2]
    if place == "bare" and sign == ":" and before.endswith(":"):
        return False  # `arn:aws:secretsmanager:…:secret:NAME`
    if place == "paired" and name == "pass":
        return False  # a statement, before a line that begins with `value`
    if certainty == 3 and _stands(name, place, sign, value, text, before, end):
        return True
    if place == "flag" and certainty == 2:
        is_directive = not before.strip() and text[end : end + 1] in ("", "\n", "\r")
        return (
            (name.startswith("-") and _mixed(value))
            or (is_directive and _chosen(value))
            or (_DIRECTIVE.fullmatch(before) is not None and _generated(value))
            or (len(value) >= 20 and _is_body(value, 20))
        )
    if place in (
        "typed",
        "passed",
        "default",
        "field",
        "phrase",
        "below",
        "flag",
        "wrapped",
        "constructed",
        "entered",
        "mapped",
    ):
        return False
    if certainty == 2:
        return _looks_secret(name, place, sign, value, before)
    return (
        certainty == 1
        and place in (*_LITERAL_PLACES, "bare", "paired", "element")
        and len(value) >= 16
        and _random(value)
        and not _is_name(value)
    )


def _looks_secret(name: str, place: str, sign: str, value: str, before: str) -> bool:
    """Values after names like `token`, `key`, `session` that look secret."""
    in_query = sign == "=" and before.endswith(("?", "&", ";", "#"))
    if (name == "code" and not in_query) or ":" in value:
        return False
    if name.lower().endswith("key") and _CACHE_KEY.fullmatch(value):
        return False
    short_key = name.lower().endswith(("key", "sig", "signature"))
    if len(value) >= 16:
        if (
            _HEX.fullmatch(value)
            and short_key
            and not (in_query or "-" in name or name.isupper() or len(value) < 32)
        ):
            return "signature" not in name.lower() or sign == "="
        return (
            (_random(value) and not _is_name(value))
            or (_HEX.fullmatch(value) is not None and not value.isdigit())
            or (len(value) >= 20 and _is_body(value.rstrip("="), 20))
        )
    in_environment = sign == "=" and name.isupper() and not before.strip(' +-"')
    told = place in ("told", "cell", "element") or (
        place == "bare" and sign.strip() == ":" and not before.strip()
    )
    if (
        (
            place in _LITERAL_PLACES
            and _parts(name)[-1] in ("token", "auth", "credential", "credentials", "creds")
        )
        or in_query
        or in_environment
        or told
    ):
        return (
            len(value) >= 6
            and "{" not in value
            and ((_mixed(value) and not _is_name(value)) or (in_environment and _chosen(value)))
        )
    return False


def _stands(name: str, place: str, sign: str, value: str, text: str, before: str, end: int) -> bool:
    """Whether the value is in the place of a secret. If so it is one, whatever it looks like, except for
    placeholders and, in code, identifiers."""
    if len(value) < 6 and not (len(value) >= 4 and any(map(str.isdigit, value))):
        return False
    if place == "bare":
        return _stands_bare(name, sign, value, text, before, end)
    if place in ("flag", "literal"):
        return _stands_behind(name, place, value, text, before, end)
    if rule := _RULES.get(place):
        return rule(name, sign, value, before)
    if "'" in before and sign.strip(" '") == "||":
        return False  # SQL, where it joins two texts
    # Not a name in a list of names, and not the name of a setting that holds the secret.
    is_name = (
        ("_" in value or "-" in value or _CAMEL.search(value))
        and _certainty(value)
        and _IDENTIFIER.fullmatch(value.replace("-", "_"))
    )
    listed = (
        place in _LITERAL_PLACES
        and "," in sign
        and not before.endswith("{")
        and not _FIRST_ARGUMENT.search(before)
        and not _is_memorable(value)
    )
    return not listed and not (is_name and not _is_memorable(value))


def _below(name: str, sign: str, value: str, before: str) -> bool:
    """`Password for root:` with the value on the next line."""
    del name
    if sign.strip().endswith((":", "?")) and (_is_memorable(value) or _random(value)):
        return True
    return _chosen(value) if _LINE_BEGINS.fullmatch(before) else _generated(value)


def _said(name: str, sign: str, value: str, before: str) -> bool:
    """In prose, or if a name is as likely: a single word counts only in quotes."""
    del before
    if name.lower() == "pass":
        return _chosen(value)
    return not _is_plain(value) or (len(value) >= 8 and sign[-2:] in (" '", ' "') and value.islower())


def _cell(name: str, sign: str, value: str, before: str) -> bool:
    in_table = " " in sign or before.lstrip().startswith("|")  # and no alternatives of a pattern
    alone = not before.rpartition("|")[2].strip(
        " \t`*\"'"
    )  # a cell that only mentions a name says nothing of the next
    return in_table and alone and _said(name, "", value, before)


def _default(name: str, sign: str, value: str, before: str) -> bool:
    del name, before
    return "{" in sign or not _is_plain(value)


def _entered(name: str, sign: str, value: str, before: str) -> bool:
    """Text that a script types into a field."""
    del name, sign, before
    return _is_memorable(value) or (_chosen(value) and not _is_plain(value))


def _wrapped_value(name: str, sign: str, value: str, before: str) -> bool:
    del name, before
    return _chosen(value) or (_TRANSPARENT.search(sign) is not None and not _is_plain(value))


def _phrase(name: str, sign: str, value: str, before: str) -> bool:
    """Whether several words are a passphrase: prose, unless name or place says otherwise."""
    spoken = "phrase" in name.lower() and _SPOKEN.fullmatch(value) and not _INSTRUCTION.search(value)
    in_environment = sign.strip("\"'") == "=" and name.isupper() and not before.strip(" -+")
    return bool(spoken) or in_environment or _PHRASE.fullmatch(value) is not None


def _passed(name: str, sign: str, value: str, before: str) -> bool:
    """After a function name: sets a password, rather than asking for one."""
    del sign
    return (
        name.isupper()
        or _SETTER.match(name) is not None
        or (before.endswith((".", "->")) and any(map(str.isdigit, value)) and not _is_plain(value))
        or (name[:1].isupper() and (_chosen(value) or (value.isalnum() and value[-1].isdigit())))
    )


_RULES: dict[str, Callable[[str, str, str, str], bool]] = {
    "below": _below, **dict.fromkeys(("said", "told", "perl", "constructed", "fallback", "mapped"), _said), "cell": _cell,
    "default": _default, "entered": _entered, "wrapped": _wrapped_value, "phrase": _phrase, "spoken": _phrase, "passed": _passed,
}  # fmt: skip
"""Rules for places that may also hold something else; arguments: name, separator, value, line before."""


def _is_directive(before: str, name: str) -> bool:
    """Whether a line assigns a value to its first word: `requirepass …`, `db.password …`."""
    return not before.strip() or before.strip().endswith(".") or "_" in name


def _stands_behind(name: str, place: str, value: str, text: str, before: str, end: int) -> bool:
    """A word after a word: after a flag, a user name, or a command that sets a value."""
    is_flag = name.startswith("-") or before.endswith(("/", "-"))
    value = value.rstrip(".:")
    if not is_flag and _SETS.search(before):
        return "_" in name or name.isupper() or not _is_plain(value)
    if (
        re.fullmatch(r"[\w.\s-]*", before)
        and text[end : end + 1] in ("", "\n", "\r", ";")
        and _is_directive(before, name)
    ):
        return not _is_plain(value)
    if not is_flag and ("_" in name or name.isupper()):
        return _random(value) or (place == "literal" and (_chosen(value) or _is_memorable(value)))
    if _WORD_ALONE.fullmatch(value) or _IDENTIFIER.fullmatch(value):
        # Prose speaks of flags, too; one after another they are a command's.
        follows = "machine" in text[max(0, end - 240) : end] and "login" in text[max(0, end - 240) : end]
        return (is_flag and (" -" in before or place == "literal")) or follows
    if place == "literal":
        return True
    listed = (
        is_flag
        or name.endswith("pw")
        or _LIST.search(before) is not None
        or "login" in text[max(0, end - 140) : end]
    )
    likely = _chosen(value) or _is_memorable(value)
    return listed or (likely and not TECHNICAL.fullmatch(value) and not re.search(r"[./:]", value))


def _stands_bare(name: str, sign: str, value: str, text: str, before: str, end: int) -> bool:
    """Without quotes: environment, properties, query, header, YAML, log; in code it would be an
    expression."""
    follows = text[end : end + 1]
    quote = before[-1:]
    if sign.strip() == ":" and quote in ("'", '"') and quote == follows:  # `'X-Api-Key: …'`
        return True
    is_name = _IDENTIFIER.fullmatch(value) is not None
    if sign == "=":
        if (
            name.startswith("-")
            or name.isupper()
            or before.endswith((".", ";", "&", "?", "=", "/"))
            or not before.strip("+-")
        ):
            return True
        if before.endswith(","):  # `-o user=…,password=…`
            return "(" not in before
        if follows in (",", ")") or not (before[-1].isspace() or quote in ("'", '"')):
            likely = _generated(value) or _is_joined(value) if "(" in before else _chosen(value)
            return likely and not TECHNICAL.fullmatch(value)
        return not is_name or _WORDS_BEFORE.search(before) is not None
    if _chosen(value) and not TECHNICAL.fullmatch(value) and not re.search(r"[+*/%]", value):
        return True
    alone = _LINE_BEGINS.fullmatch(_WHERE.sub("", before)) is not None and follows in ("", "\n", "\r", "<")
    if not alone:
        return False
    if sign.strip() in ("=", ":=", "->", "=>", "?=", "+="):
        return (
            _is_memorable(value)
            or (name.isupper() and value.isalpha() and value.islower())
            or _in_section(text, end)
        )
    # A line of YAML, an annotation, or a label in a form.
    if sign.strip(" \t*>|+-\r\n") not in (":", "::") or not value.isascii():
        return False
    if name.isupper() or "-" in name or not (is_name or TECHNICAL.fullmatch(value)):
        return True
    return value.isalpha() and value.islower() and (bool(before.strip()) or _in_yaml(text, end))


def _in_yaml(text: str, end: int) -> bool:
    """Whether the line before or after also assigns a value, without the line endings of code."""
    start = text.rfind("\n", max(0, end - _LINE_SIZE), end) + 1
    above, below = text[max(0, start - 200) : start].rstrip(), text[end : end + 200].lstrip()
    lines = above.rpartition("\n")[2], below.partition("\n")[0]
    return any(map(_PAIR.fullmatch, lines))


def _in_section(text: str, end: int) -> bool:
    """Whether the line is in a section of an INI file, where a value is never an expression."""
    lines = text[max(0, end - 2000) : end].splitlines()
    for line in reversed(lines[:-1]):
        if _SECTION.fullmatch(line):
            return True
        if not _SETTING.match(line):
            return False
    return False


# ── how random a value is ───────────────────────────────────────────────────────────────────────


def _chosen(value: str) -> bool:
    """Chosen by people or generated as a password, and unlike identifiers."""
    value = value.rstrip("=")
    if len(value) < 6 or PLACEHOLDER.fullmatch(value) or _is_place(value):
        return False
    if value.endswith(_CLASS_ENDINGS):
        return False
    if _DOTTED.fullmatch(value):
        return False
    if _WORD_AND_NUMBER.fullmatch(value) or _TYPED.fullmatch(value):
        return not TECHNICAL.fullmatch(value)
    if value.isalpha():
        return len(value) >= 8 and not (
            value.islower() or value.isupper() or value.istitle() or _is_name(value)
        )
    return _mixed(value) and not _is_name(value) and re.search(r"[()\[\]\\=]", value) is None


def _generated(value: str) -> bool:
    """Generated, or made up as a password: unlike any identifier or word."""
    if _TYPED.fullmatch(value):
        return _EXPRESSION.fullmatch(value) is None
    if _NUMBERED_NAME.fullmatch(value) and any(map(_is_word, re.findall(r"[A-Z]?[a-z]{4,}", value))):
        return False
    return len(value) >= 8 and value.isalnum() and len({*map(_class_of, value)}) == 3 and _chosen(value)


def _is_memorable(value: str) -> bool:
    """Words with a number and symbols, as people choose them; rare in code and prose."""
    return (
        _MEMORABLE.fullmatch(value) is not None
        and not value.isdigit()
        and not _is_plain(value)
        and not PLACEHOLDER.fullmatch(value)
        and not _STANDARD.match(value)
        and not _EXPRESSION.fullmatch(value)
        and not (_certainty(value) and _IDENTIFIER.match(value))
        and not _HEX.fullmatch(value)
    )


def _is_joined(value: str) -> bool:
    """Words and a number joined by hyphens, as people build memorable passwords."""
    return _JOINED.fullmatch(value) is not None and not _is_plain(value)


def _is_plain(value: str) -> bool:
    """Common in code and documentation: a word, a name, a call, a version."""
    return (
        _WORD_ALONE.fullmatch(value) is not None
        or _IDENTIFIER.fullmatch(value) is not None
        or TECHNICAL.fullmatch(value) is not None
        or value.endswith(_CLASS_ENDINGS)
        or re.search(r"[()\[\]\\]", value) is not None
    )


def _is_place(value: str) -> bool:
    """A path, an address, an option or a file that holds the value."""
    if value.startswith("/"):
        return not (
            len(value) >= 32 and _is_body(value[1:].rstrip("=").replace("/", "").replace("+", ""), 24)
        )
    return value.startswith(("./", "http", "--", "@"))


def _is_name(value: str, least: int = 3) -> bool:
    """An identifier: two fifths of it are words of at least this many letters."""
    words = (word for word in _WORD.findall(value) if len(word) >= least and _is_word(word))
    return 5 * sum(map(len, words)) > 2 * len(value)


def _is_word(letters: str) -> bool:
    """Whether the letters follow each other as in words; a third of random strings do."""
    pairs = len(letters) - 1
    return 5 * sum(letters[n : n + 2].lower() in LETTER_PAIRS for n in range(pairs)) >= 3 * pairs


def _mixed(value: str) -> bool:
    """Short, but with several kinds of characters that change too often for an identifier."""
    if PLACEHOLDER.fullmatch(value) or _is_place(value) or value[0] in "$%{<*":
        return False
    classes = [_class_of(char) for char in value]
    if "0" not in classes or not {"a", "A"} & set(classes):
        return _shifting(classes)
    return entropy(value) >= min(2.4, 0.75 * math.log2(len(value))) and _changes(classes) >= max(
        2, len(value) // 5
    )


def _shifting(classes: list[str]) -> bool:
    """Letters only, with case changing all the time."""
    return {"a", "A"} <= set(classes) and _changes(classes) >= max(3, len(classes) // 4)


def _class_of(char: str) -> str:
    return "a" if char.islower() else "A" if char.isupper() else "0" if char.isdigit() else "-"


def _changes(classes: list[str]) -> int:
    """Number of changes between kinds of characters; a capital before lower case does not count."""
    return sum(a != b and (a, b) != ("A", "a") for a, b in pairwise(classes))


def _random(value: str) -> bool:
    """Letters and digits mixed as no person would type an identifier: high entropy, no words, no code."""
    if PLACEHOLDER.fullmatch(value) or _is_place(value):
        return False
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    if not digits:
        return len(value) >= 16 and value.isalnum() and _shifting([_class_of(char) for char in value])
    if not letters or digits + letters < 0.7 * len(value):
        return False
    if ("_" in value or "-" in value) and _is_name(value) and digits * 5 < len(value):
        return False
    if digits < 3 and any(map(_is_word, re.findall(r"[a-z]{8,}|[A-Z]{8,}", value))):
        return False
    if re.fullmatch(r"[A-Za-z_]+[\w.]*(?:\.[A-Za-z_]\w*)+|[a-z_]+\d{0,3}|[A-Z_]+\d{0,3}", value):
        return False
    return entropy(value) >= 3.0 + (0.3 if digits < 2 else 0)


def entropy(text: str) -> float:
    """Shannon entropy in bits per character."""
    counts = [text.count(char) for char in set(text)]
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts)
