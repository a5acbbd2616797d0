"""Passwords near a word for one: in a sentence, on a line about logins, in what a command prints."""
# ruff: noqa: E501 (patterns that read better on one line)

from __future__ import annotations

import re
from collections.abc import Iterator

from refold.text.patterns import lazy_pattern
from refold.text.redaction.secrets import CUES, TECHNICAL, SecretFinding
from refold.text.redaction.values import HEX, TYPED_PASSWORD, is_chosen, is_generated, is_memorable, is_random

_CONNECTED = lazy_pattern(
    r"(?:[ \t](?:from[ \t]\S{1,80}[ \t]to|is|was|to|from|be|are|as|now|set|é|è|es|est|ist|lautet|=)|[:?][ \t]A:|:)[ \t]{1,2}[\"'`«“]?([^\s\"'`«»“”()\[\]{}<>|]{6,80}+)(?![(\[{])"
)
"""What connects a word for a password with the password, in a sentence."""


def values_connected(text: str, end: int) -> Iterator[re.Match[str]]:
    """What may be the value of a word, in the rest of its line."""
    stop = text.find("\n", end, end + 180)
    return _CONNECTED.finditer(text, end, stop if stop >= 0 else min(len(text), end + 180))


def passwords_near(text: str, end: int) -> Iterator[SecretFinding]:
    """Unmistakable passwords on a line that mentions one: `set the root password to …`, `use … as the
    password`."""
    if announced := _ANNOUNCED.match(text, end):
        yield from _alone_in_lines(text, announced.end())
    for said in values_connected(text, end):
        value = said[1].rstrip(".,;:")
        if (is_chosen(value) and not TECHNICAL.fullmatch(value)) or is_memorable(value):
            yield SecretFinding("assignment", said.start(1), said.start(1) + len(value))
            break
    start = text.rfind("\n", max(0, end - 120), end) + 1 or max(0, end - 120)
    line = text.find("\n", end, end + 120)
    for token in _TOKEN.finditer(text, start, line if line >= 0 else min(len(text), end + 120)):
        value = token[0].rstrip(".,;:")
        if (
            _SAYS_SO.search(value)
            or text[token.end() : token.end() + 1] in ("(", "[")
            or HEX.fullmatch(value)
        ):
            continue  # a name, or a commit
        if TYPED_PASSWORD.fullmatch(value) or (len(value) >= 8 and value.isalnum() and is_chosen(value)):
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


def printed_secrets(text: str) -> Iterator[SecretFinding]:
    """What a command at a prompt prints that shows a secret, or a file that is named after one."""
    for prompt in _PROMPT.finditer(text):
        if _PRINTS.match(prompt[1]) and _ABOUT_SECRETS.search(prompt[1]):
            yield from _alone_in_lines(text, prompt.end())


def _alone_in_lines(text: str, at: int) -> Iterator[SecretFinding]:
    """Lines from there on that are nothing but a value, where a secret was announced."""
    while line := _ALONE_IN_LINE.match(text, at):
        value = line[1]
        if not (is_random(value) or is_chosen(value) or is_memorable(value)) or TECHNICAL.fullmatch(value):
            return
        yield SecretFinding("assignment", line.start(1), line.end(1))
        at = line.end()


def passwords_beside(text: str, lowered: bytes) -> Iterator[SecretFinding]:
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
                        is_generated(value)
                        and not HEX.fullmatch(value.removeprefix("0x"))
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
