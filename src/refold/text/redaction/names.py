"""How sure a name makes it that its value is a secret."""

from __future__ import annotations

from functools import lru_cache

from refold.text.patterns import lazy_pattern
from refold.text.redaction import secrets

_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def name_parts(name: str) -> list[str]:
    return [part.lower() for part in _PART.findall(name)]


@lru_cache(4096)
def name_certainty(name: str) -> int:
    """3: the value is always a secret; 2: if it looks like one; 1: the name mentions one; 4: if it is a short
    number; 0: never."""
    parts = name_parts(name)
    while len(parts) > 1 and (parts[-1] in secrets.NEUTRAL or parts[-1].isdigit()):
        parts.pop()
    if not parts or secrets.PLAIN_NAMES & set(parts):
        return 0
    parts[-1] = secrets.PLURALS.get(parts[-1], parts[-1])
    last, before = parts[-1], parts[-2] if len(parts) > 1 else ""
    if last in ("code", "codes") and before in ("backup", "recovery"):
        return 3
    if last in secrets.CODES and (last != "code" or before in secrets.CODE_QUALIFIERS):
        return 4
    if last in secrets.PASSWORDS or _ends(last) or (last == "seed" and before in secrets.CODES):
        return 3
    if last == "token":
        return 3 if before in secrets.TOKEN_QUALIFIERS or (before and name.isupper()) else 2
    if last == "key" and (before in secrets.KEY_QUALIFIERS or _ends(before)):
        return 3
    if last in secrets.LIKELY or name == "code" or last.endswith(("auth", "token", "sessid")):
        return 2
    return int(
        any(
            part in ("token", "secret", "password", "credential", "passwd", "apikey", "signature")
            or (part == "key" and n and parts[n - 1] in secrets.KEY_QUALIFIERS)
            for n, part in enumerate(parts)
        )
    )


def _ends(part: str) -> bool:
    return part.endswith(secrets.SECRET_ENDINGS) and part not in secrets.NOT_ENDINGS
