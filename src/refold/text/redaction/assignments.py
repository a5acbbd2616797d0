"""Values that stand where a secret stands: assigned to a secret name, after a flag that takes one."""
# ruff: noqa: E501 (patterns that read better on one line)

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import cast

from refold.text.patterns import lazy_pattern
from refold.text.redaction.mentions import passwords_near, values_connected
from refold.text.redaction.names import name_certainty, name_parts
from refold.text.redaction.secrets import (
    ASSIGNED,
    ASSIGNED_VALUES,
    OTHER_VALUES,
    PAIRED,
    PLACEHOLDER,
    TECHNICAL,
    SecretFinding,
)
from refold.text.redaction.values import (
    HEX,
    IDENTIFIER,
    LINE_SIZE,
    WORD_ALONE,
    is_chosen,
    is_common,
    is_generated,
    is_identifier,
    is_joined,
    is_location,
    is_memorable,
    is_mixed,
    is_random,
    is_token_body,
)

_CACHE_KEY = lazy_pattern(r"[A-Za-z][\w.-]{0,200}-[0-9a-f]{32,64}")
_STEMS = (b"pass", b"pwd", b"pw", b"secret", b"token", b"key", b"cred", b"auth", b"sess", b"psk", b"salt", b"sig", b"sid", b"pin",
          b"otp", b"code", b"jwt", b"dsn", b"mnemonic", b"login", b"community", b"hmac", b"cvv")  # fmt: skip
_NAME_SHAPE = (
    bytes(ord("a") if chr(code).isalnum() or chr(code) in "_-" else ord(" ") for code in range(128))
    + b" " * 128
)
_SPACED = frozenset(("key", "code", "token", "phrase", "keys", "codes", "data", "string"))
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
_PATTERN = lazy_pattern(r"\\[wWdDsSbB.*+?()|$]|\[\^")
"""A regular expression: a value with a backslash that is not a secret."""
_LITERAL_PLACES = ("quoted", "divided", "escaped")
_ONLY_AFTER_SURE_NAMES = frozenset(
    ("typed", "passed", "default", "field", "phrase", "below", "flag", "wrapped", "constructed", "entered", "mapped")
)  # fmt: skip
_OPEN_VARIABLE = lazy_pattern(r"\$\{[\w.]{0,60}$")
_FALLBACK = lazy_pattern(r"(?::[-=]?|-)(?P<fallback>[^\s{}$\"'`]{4,200}+)\}")
"""Default of an unset variable: `${DB_PASSWORD:-…}`."""
_LINE_START = lazy_pattern(r"\s*(?:export\s|set\s|[+-]{1,2}\s?|\d+[|\t]\s*)?[\w.]*")
_WHOLE = lazy_pattern(
    r"=(?P<bare>(?![A-Za-z_][\w.]*[(\[{])[^\s\"'`$(\[{<](?>(?:(?![&;,][\w.-]{1,40}[=:])[^\s\"'`]){3,4000}))(?<![,;)])[ \t]*\r?$",
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
_CAMEL = lazy_pattern(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
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
_SPOKEN = lazy_pattern(r"[\w!?'-]{1,20}(?: [\w!?'-]{1,20}){2,11}")
_INSTRUCTION = lazy_pattern(
    r"(?i)\b(?:enter|your|the|for|please|must|is|a|an|to|of|and|or|phrase|password)\b"
)
_PHRASE = lazy_pattern(r"(?:[a-z]{3,8} ){11,23}[a-z]{3,8}")


def assignments(text: str, lowered: bytes) -> Iterator[SecretFinding]:
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
                if name_certainty(text[start:end]) or end - start <= 6:
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
    certainty = name_certainty(name)
    if not certainty:
        return
    before = text[max(0, start - LINE_SIZE) : start].rpartition("\n")[2]
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
        if "=" in known and name_certainty(known.partition("=")[0]) == 3:
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
        yield from passwords_near(text, end)
    elif certainty == 4:
        yield from (
            SecretFinding("assignment", said.start(1), said.start(1) + len(said[1].rstrip(".,;:")))
            for said in values_connected(text, end)
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


def _is_secret(
    name: str, certainty: int, place: str, sign: str, value: str, text: str, start: int, end: int
) -> bool:
    if place == "quoted" and "\\" in value and _PATTERN.search(value):
        return False
    if place == "quoted" and sign[-2:-1] == "f" and "{" in value:
        return False  # a template, which is filled in elsewhere
    if PLACEHOLDER.fullmatch(value) or (
        is_location(value) and not (place in _LITERAL_PLACES and value[0] == "@")
    ):
        return False
    if certainty == 4:
        return (
            value.isdigit()
            and 4 <= len(value) <= 8
            and place in (*_LITERAL_PLACES, "bare", "told", "said", "flag", "cell", "below")
        )
    before = text[max(0, start - LINE_SIZE) : start].rpartition("\n")[2]
    if place == "bare" and sign == ":" and before.endswith(":"):
        return False  # `arn:aws:secretsmanager:…:secret:NAME`
    if place == "paired" and name == "pass":
        return False  # a statement, before a line that begins with `value`
    if certainty == 3 and _stands(name, place, sign, value, text, before, end):
        return True
    if place == "flag" and certainty == 2:
        is_directive = not before.strip() and text[end : end + 1] in ("", "\n", "\r")
        return (
            (name.startswith("-") and is_mixed(value))
            or (is_directive and is_chosen(value))
            or (_DIRECTIVE.fullmatch(before) is not None and is_generated(value))
            or (len(value) >= 20 and is_token_body(value, 20))
        )
    if place in _ONLY_AFTER_SURE_NAMES:
        return False
    if certainty == 2:
        return _looks_secret(name, place, sign, value, before)
    return (
        certainty == 1
        and place in (*_LITERAL_PLACES, "bare", "paired", "element")
        and len(value) >= 16
        and is_random(value)
        and not is_identifier(value)
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
            HEX.fullmatch(value)
            and short_key
            and not (in_query or "-" in name or name.isupper() or len(value) < 32)
        ):
            return "signature" not in name.lower() or sign == "="
        return (
            (is_random(value) and not is_identifier(value))
            or (HEX.fullmatch(value) is not None and not value.isdigit())
            or (len(value) >= 20 and is_token_body(value.rstrip("="), 20))
        )
    in_environment = sign == "=" and name.isupper() and not before.strip(' +-"')
    told = place in ("told", "cell", "element") or (
        place == "bare" and sign.strip() == ":" and not before.strip()
    )
    if (
        (
            place in _LITERAL_PLACES
            and name_parts(name)[-1] in ("token", "auth", "credential", "credentials", "creds")
        )
        or in_query
        or in_environment
        or told
    ):
        return (
            len(value) >= 6
            and "{" not in value
            and ((is_mixed(value) and not is_identifier(value)) or (in_environment and is_chosen(value)))
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
        and name_certainty(value)
        and IDENTIFIER.fullmatch(value.replace("-", "_"))
    )
    listed = (
        place in _LITERAL_PLACES
        and "," in sign
        and not before.endswith("{")
        and not _FIRST_ARGUMENT.search(before)
        and not is_memorable(value)
    )
    return not listed and not (is_name and not is_memorable(value))


def _below(_name: str, sign: str, value: str, before: str) -> bool:
    """`Password for root:` with the value on the next line."""
    if sign.strip().endswith((":", "?")) and (is_memorable(value) or is_random(value)):
        return True
    return is_chosen(value) if _LINE_BEGINS.fullmatch(before) else is_generated(value)


def _said(name: str, sign: str, value: str, _before: str) -> bool:
    """In prose, or if a name is as likely: a single word counts only in quotes."""
    if name.lower() == "pass":
        return is_chosen(value)
    return not is_common(value) or (len(value) >= 8 and sign[-2:] in (" '", ' "') and value.islower())


def _cell(name: str, sign: str, value: str, before: str) -> bool:
    in_table = " " in sign or before.lstrip().startswith("|")  # and no alternatives of a pattern
    # A cell that only mentions a name says nothing of the next.
    alone = not before.rpartition("|")[2].strip(" \t`*\"'")
    return in_table and alone and _said(name, "", value, before)


def _default(_name: str, sign: str, value: str, _before: str) -> bool:
    return "{" in sign or not is_common(value)


def _entered(_name: str, _sign: str, value: str, _before: str) -> bool:
    """Text that a script types into a field."""
    return is_memorable(value) or (is_chosen(value) and not is_common(value))


def _wrapped_value(_name: str, sign: str, value: str, _before: str) -> bool:
    return is_chosen(value) or (_TRANSPARENT.search(sign) is not None and not is_common(value))


def _phrase(name: str, sign: str, value: str, before: str) -> bool:
    """Whether several words are a passphrase: prose, unless name or place says otherwise."""
    spoken = "phrase" in name.lower() and _SPOKEN.fullmatch(value) and not _INSTRUCTION.search(value)
    in_environment = sign.strip("\"'") == "=" and name.isupper() and not before.strip(" -+")
    return bool(spoken) or in_environment or _PHRASE.fullmatch(value) is not None


def _passed(name: str, _sign: str, value: str, before: str) -> bool:
    """After a function name: sets a password, rather than asking for one."""
    return (
        name.isupper()
        or _SETTER.match(name) is not None
        or (before.endswith((".", "->")) and any(map(str.isdigit, value)) and not is_common(value))
        or (name[:1].isupper() and (is_chosen(value) or (value.isalnum() and value[-1].isdigit())))
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
        return "_" in name or name.isupper() or not is_common(value)
    if (
        re.fullmatch(r"[\w.\s-]*", before)
        and text[end : end + 1] in ("", "\n", "\r", ";")
        and _is_directive(before, name)
    ):
        return not is_common(value)
    if not is_flag and ("_" in name or name.isupper()):
        return is_random(value) or (place == "literal" and (is_chosen(value) or is_memorable(value)))
    if WORD_ALONE.fullmatch(value) or IDENTIFIER.fullmatch(value):
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
    likely = is_chosen(value) or is_memorable(value)
    return listed or (likely and not TECHNICAL.fullmatch(value) and not re.search(r"[./:]", value))


def _stands_bare(name: str, sign: str, value: str, text: str, before: str, end: int) -> bool:
    """Without quotes: environment, properties, query, header, YAML, log; in code it would be an
    expression."""
    follows = text[end : end + 1]
    quote = before[-1:]
    if sign.strip() == ":" and quote in ("'", '"') and quote == follows:  # `'X-Api-Key: …'`
        return True
    is_name = IDENTIFIER.fullmatch(value) is not None
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
            likely = is_generated(value) or is_joined(value) if "(" in before else is_chosen(value)
            return likely and not TECHNICAL.fullmatch(value)
        return not is_name or _WORDS_BEFORE.search(before) is not None
    if is_chosen(value) and not TECHNICAL.fullmatch(value) and not re.search(r"[+*/%]", value):
        return True
    alone = _LINE_BEGINS.fullmatch(_WHERE.sub("", before)) is not None and follows in ("", "\n", "\r", "<")
    if not alone:
        return False
    if sign.strip() in ("=", ":=", "->", "=>", "?=", "+="):
        return (
            is_memorable(value)
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
    start = text.rfind("\n", max(0, end - LINE_SIZE), end) + 1
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
