"""Plain-ASCII form of disguised text, with a map back to the original.

Full-width and decorated letters, invisible characters, terminal colours, HTML entities, percent codes and
foreign words for "password" can disguise a secret. Lines that have any are normalised, and a match is mapped
back to its place in the original.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache

from refold.text.patterns import lazy_pattern

_UNSEEN = frozenset(("Mn", "Me", "Cf", "Cc"))
_LOOKALIKES = str.maketrans("‐‑‒–—―−∕⁄⧸аеорсухіѕјһԁАЕОРСУХІЅЈНТМВК", "-------///aeopcyxisjhdAEOPCYXISJHTMBK")
_TWINS = "аеорсухіѕјһԁАЕОРСУХІЅЈНТМВК"
"""Letters of other scripts that look Latin inside a Latin word."""
_NAMES = (
    "contrasena", "clave", "mot de passe", "mot-de-passe", "mot_de_passe", "passwort", "kennwort",
    "wachtwoord", "senha", "parola", "salasana", "adgangskode", "heslo", "kata sandi",
)  # fmt: skip
_FOREIGN_NAMES = (
    r"密[码碼][是为為]?|口令|パスワードは?|비밀번호|парол[ьяюе]|contrase(?:ñ|n\u0303)a|lösenord|hasło|şifre"
    r"|كلمة (?:المرور|السر)|पासवर्ड|κωδικός|סיסמ[הא]|mật khẩu|jelszó|รหัสผ่าน|лозинка"
)
_CHARACTERS = (
    "\u00a0\u00ab\u00ad\u00bb\u034f\u180e\u200b-\u200f\u2018-\u201f\u202a-\u202e\u2060-\u2064\u2460-\u24ff"
    "\u3000-\u3002\u300c\u300d\ufe00-\ufe0f\ufeff！-～\U0001d400-\U0001d7ff\U000e0000-\U000e007f"
)
_ODD = lazy_pattern(
    rf"(?P<password>(?i:{'|'.join(_NAMES)}|{_FOREIGN_NAMES}))"
    rf"|(?P<character>[{_CHARACTERS}])"
    rf"|(?P<twins>(?<=[A-Za-z])[{_TWINS}]++|(?<![{_TWINS}])[{_TWINS}]++(?=[A-Za-z]))"
    r"|(?P<colour>\x1b\[[0-9;]{0,16}[mK])"
    r"|(?P<entity>&(?i:#\d{1,7}|#x[0-9a-f]{1,6}|quot|apos|amp|equals|colon);)"
    r"|(?P<percent>%(?:3[AaDd]|2[267]))"
)
_FOREIGN = re.compile(r"[^\x00-\x7f]")
_SIGNS = (
    *(b"&#", b"&quot;", b"&apos;", b"&equals;", b"&colon;", b"%3d", b"%3a", b"%22", b"\x1b["),
    *map(str.encode, _NAMES),
)
_PUNCTUATION = {"、": ",", "。": " ", "«": '"', "»": '"', "「": '"', "」": '"'}


class Canonical:
    """`text` holds the lines that need normalising; `span` maps a piece of it back to the original."""

    def __init__(self, original: str, lowered: bytes) -> None:
        """`lowered`: the original in lower case, one byte per character."""
        self._pieces: list[str] = []
        self._size = 0
        self._starts: list[int] = []
        self._origins: list[tuple[int, int, int]] = []
        for start, end in _lines(original, lowered):
            at = start
            for odd in _ODD.finditer(original, start, end):
                if at == start:
                    self._replace("\n", start, start)
                self._pieces.append(original[at : odd.start()])
                self._size += odd.start() - at
                self._replace(_plain(odd), odd.start(), odd.end())
                at = odd.end()
            if at > start:
                self._pieces.append(original[at:end])
                self._size += end - at
        self.text = "".join(self._pieces)

    def _replace(self, plain: str, start: int, end: int) -> None:
        self._pieces.append(plain)
        self._starts.append(self._size)
        self._size += len(plain)
        self._origins.append((start, self._size, end))

    def span(self, start: int, end: int) -> tuple[int, int]:
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> tuple[int, int]:
        """The original span of one character, which may be an entity or a percent code."""
        start, plain_end, end = self._origins[bisect_right(self._starts, at) - 1]
        if at < plain_end:
            return start, end
        return end + at - plain_end, end + at - plain_end + 1


@lru_cache(maxsize=4096)
def seen(char: str) -> str:
    """The visible letter of a character: empty for an invisible one, plain for a decorated one."""
    forms = unicodedata.normalize("NFKD", char)
    letters = "".join(c for c in forms if c in "\n\t" or unicodedata.category(c) not in _UNSEEN)
    return letters.translate(_LOOKALIKES)


def unescaped(entity: str) -> str:
    from html import unescape  # rarely needed, and a table of two thousand names

    return unescape(entity)


def _lines(text: str, lowered: bytes) -> list[tuple[int, int]]:
    """Start and end of each line that may be disguised."""
    starts: set[int] = set()
    if not text.isascii():
        at = 0
        while found := _FOREIGN.search(text, at):
            starts.add(text.rfind("\n", 0, found.start()) + 1)
            at = _end(text, found.start())
    for sign in _SIGNS:
        at = lowered.find(sign)
        while at >= 0:
            starts.add(text.rfind("\n", 0, at) + 1)
            at = lowered.find(sign, _end(text, at))
    return [(start, _end(text, start)) for start in sorted(starts)]


def _end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _plain(odd: re.Match[str]) -> str:
    match odd.lastgroup:
        case "password":
            return "password" if odd[0][-1] not in "是为為は" else "password:"
        case "character":
            if "\u2018" <= odd[0] <= "\u201f":
                return '"'
            return _PUNCTUATION.get(odd[0]) or seen(odd[0])
        case "twins":
            return "".join(map(seen, odd[0]))
        case "entity":
            return unescaped(odd[0])
        case "percent":
            return chr(int(odd[0][1:], 16))
        case _:
            return ""
