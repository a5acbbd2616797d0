"""Secrets in cookies, in columns of tables, in rows of SQL, and before `@host`."""
# ruff: noqa: E501 (patterns that read better on one line)

from __future__ import annotations

from collections.abc import Iterator

from refold.text.patterns import lazy_pattern
from refold.text.redaction.names import name_certainty
from refold.text.redaction.secrets import PLACEHOLDER, SecretFinding
from refold.text.redaction.values import LINE_SIZE, is_chosen, is_memorable, is_random

_COOKIE = lazy_pattern(r"(?i)(?<![\w])cookie\\?[\"']?\s{0,3}:\s{0,3}[\"']?([^\n\"']{8,4000})")
_CRUMB = lazy_pattern(r"[^\s=;,]{1,80}=([^\s=;,\"']{16,4000})")
_HEADING = lazy_pattern(
    r"(?P<cells>(?:\"[\w .-]{1,60}\"|[\w\".-]{1,60})(?P<mark>[,;\t])(?:\"[\w .-]{1,60}\"|[\w\".-]{1,60})(?:(?P=mark)(?:\"[\w .-]{1,60}\"|[\w\".-]{1,60})){0,40})\r?\n"
    r"|(?P<row>[ \t]{0,16}\|?[\w \"`*.-]{1,60}(?P<bar>\|)[\w \"`*.|-]{1,2000})\r?\n[ \t]{0,16}[-+|: =]{3,2000}(?:\r?\n|$)"
)
"""Heading of a table: nothing but names, or names between bars with a rule below."""
_LINE = lazy_pattern(r"[^\n]{1,4000}")
_INSERT = lazy_pattern(r"(?i)\(([^()\n]{1,600})\)\s{0,8}VALUES\s{0,8}(?=\()")
_TUPLE = lazy_pattern(r"\s{0,8}\(((?>(?:[^()'\n]|'(?:[^'\n]|''){0,400}'){1,2000}))\)\s{0,4},?")
_FIELD = lazy_pattern(r"\s{0,8}+(?:'((?>(?:[^'\n]|''){0,400}))'|[^,'\n]{1,400}+)\s{0,8}+(?:,|$)")


def cookies(text: str, lowered: bytes) -> Iterator[SecretFinding]:
    at = lowered.find(b"cookie")
    while at >= 0:
        header = _COOKIE.match(text, at)
        crumbs = _CRUMB.finditer(text, header.start(1), header.end(1)) if header else ()
        for crumb in crumbs:
            if is_random(crumb[1]):
                yield SecretFinding("cookie", crumb.start(1), crumb.end(1))
        at = lowered.find(b"cookie", header.end() if header else at + 6)


def secrets_in_columns(text: str, lowered: bytes) -> Iterator[SecretFinding]:
    """Cells of a table in a column with a secret name."""
    read = 0
    for keyword in (b"passw", b"pwd", b"secret"):
        at = lowered.find(keyword, read)
        while at >= 0:
            start = text.rfind("\n", max(0, at - LINE_SIZE), at) + 1
            head = _HEADING.match(text, start)
            read = head.end() if head else at + 1
            if head:
                mark = head["mark"] or head["bar"]
                heads = _cells(head["cells"] or head["row"], mark)
                wanted = [
                    n for n, (_, _, name) in enumerate(heads) if name_certainty(name.replace(" ", "_")) == 3
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


def secrets_in_inserts(text: str, lowered: bytes) -> Iterator[SecretFinding]:
    """Values that SQL inserts into a column of passwords."""
    at = lowered.find(b"insert into ")
    while at >= 0:
        insert = _INSERT.search(text, at, at + 900)
        names = insert[1].split(",") if insert else []
        wanted = [n for n, name in enumerate(names) if name_certainty(name.strip(' `"[]')) == 3]
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


def logins_before_hosts(text: str) -> Iterator[SecretFinding]:
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
            is_chosen(pair[1])
            or text.startswith(("tcp(", "unix("), at + 1)
            or (is_memorable(pair[1]) and _HOST.match(text, at + 1))
        ):
            yield SecretFinding("login", pair.start(1), at)
        mail = _MAIL_AND_PASSWORD.match(text, at)
        if mail and is_chosen(mail[1]):
            yield SecretFinding("login", mail.start(1), mail.end(1))
        at = text.find("@", at + 1)
