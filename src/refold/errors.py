"""Every error refold raises, as one tree.

RefoldError
├── UsageError                 the call itself is wrong: fix the arguments
│   ├── WrongType              an argument is nothing that can be used there; a TypeError too
│   │   └── InvalidValue       JSON has no such value: NaN, too many digits, nested too deeply
│   ├── SettingError           a preset setting is of the wrong type or contradicts another
│   │   └── UnknownSetting     a preset has no setting of that name; a TypeError too
│   └── UnknownName            a preset, model, store or format of that name does not exist
├── SessionError               the log or a request to it is inconsistent
│   ├── EntryNotFound          no entry has that id (or key); a KeyError too
│   ├── TreeError              an append with a duplicate id or a missing parent
│   ├── FoldError              edits overlap or name entries that are not on the path
│   └── LeafMoved              the conversation was moved to another branch during a turn
├── StorageError               a store or a file could not do what was asked
│   ├── Conflict               another writer appended first: refresh, then append or branch
│   │   └── SessionExists      a session of that id is there already: open it or choose another id
│   ├── ReadOnly               this role may read the store and not write to it
│   ├── FormatError            a file is not what it should be
│   │   └── NotJson            it is not even JSON
│   └── NewerFormat            written by a newer release: upgrade refold
├── DoesNotFit                 what cannot be folded, or what a design keeps, is larger than the window
├── StalePlan                  the session moved on since the plan was made: plan again
├── OverflowAgain              the provider refused the context twice in a row
├── PluginError                a preset, counter or summariser of your own raised, or gave nothing usable
└── ModelError                 a model could not answer
    ├── ModelUnavailable       not installed, no key, unknown name: says how to get it
    ├── Overflow               the request was larger than the model's window
    ├── Transient              worth trying again (rate limit, overload, broken connection)
    └── BadAnswer              an answer came, but it is no summary
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import get_args

_EXPECTED = re.compile(
    r"Expected `(?P<kind>[^`]+)`(?:, got `[^`]+`| (?P<sign>>=|<=|>|<) (?P<bound>\S+))?(?: - at `.*`)?"
)
_KINDS = {
    "int": "a whole number", "float": "a number", "str": "text in quotes", "bool": "true or false",
    "array": "a list", "object": "a table",
}  # fmt: skip
_SIGNS = {">=": "of at least", ">": "above", "<=": "of at most", "<": "below"}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Closest known name."""
    from difflib import get_close_matches

    spellings = {one.casefold(): one for one in known}
    found = get_close_matches(name.casefold(), spellings, n=1, cutoff=0.7)
    return spellings[found[0]] if found else None


def _choices(name: str, known: Iterable[str]) -> str:
    known = tuple(known)
    meant = nearest(name, known)
    listed = f"; there are: {', '.join(known)}" if known else ""
    return listed + (f"; did you mean {meant}?" if meant else "")


def needed_value(error: object, type: object) -> str:
    """What a validation error of msgspec asks for: `must be a whole number of at least 1`."""
    found = _EXPECTED.fullmatch(str(error))
    if found is None:
        choices = _literals(type) if str(error).startswith("Invalid enum value") else []
        return f"must be one of {', '.join(choices)}" if choices else f"is not valid: {error}"
    kinds = (kind for kind in found["kind"].split(" | ") if kind != "null")
    needed = " or ".join(kind_name(kind) for kind in kinds)
    limit = f" {_SIGNS[found['sign']]} {found['bound'].removesuffix('.0')}" if found["sign"] else ""
    return f"must be {needed}{limit}"


def _literals(type: object) -> list[str]:
    """The strings that a type allows."""
    inner = get_args(type)
    return [text for kind in inner for text in ([kind] if isinstance(kind, str) else _literals(kind))]


def kind_name(kind: str) -> str:
    """A type as users call it: `a whole number`."""
    return _KINDS.get(kind, kind)


class RefoldError(Exception):
    """Base of all. `str(error)` is one sentence that says what to do."""


def sentence(error: BaseException | str) -> str:
    """What an error says; the name of its kind where it says nothing, or cannot."""
    try:
        text = str(error)
    except Exception:  # of a foreign class
        text = ""
    return text or type(error).__name__


class UsageError(RefoldError):
    pass


class WrongType(UsageError, TypeError):
    pass


class InvalidValue(WrongType):
    """A value that cannot be stored as JSON; `refold.text.lenient_json` says which can."""


def expect(value: object, kind: type | tuple[type, ...], wanted: str) -> None:
    """`WrongType` where a value is of another kind, with what is wanted instead."""
    if not isinstance(value, kind):
        given = "None" if value is None else type(value).__name__
        raise WrongType(f"{wanted} (got {given})")


class SettingError(UsageError):
    def __init__(self, key: str, text: str) -> None:
        super().__init__(f"{key}: {text}")
        self.key = key


class UnknownSetting(SettingError, TypeError):
    def __init__(self, key: str, known: Iterable[str]) -> None:
        super().__init__(key, f"no such setting{_choices(key, sorted(known))}")


class UnknownName(UsageError):
    def __init__(self, kind: str, name: str, known: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(f"unknown {kind} {name!r}{_choices(name, known)}{hint and f'; {hint}'}")
        self.name = name


class SessionError(RefoldError):
    pass


class EntryNotFound(SessionError, KeyError):
    def __init__(self, id: str) -> None:
        super().__init__(f"no entry {id!r} in this session")
        self.id = id

    __str__ = Exception.__str__  # a KeyError would quote the sentence


class TreeError(SessionError):
    pass


class FoldError(SessionError):
    pass


class LeafMoved(SessionError):
    def __init__(self) -> None:
        super().__init__(
            "the session moved to another branch during the turn: the reply is kept on its own branch; "
            "continue from either one"
        )


class StorageError(RefoldError):
    pass


class Conflict(StorageError):
    """The compare-and-swap of an append failed."""

    def __init__(self, expected: str | None, found: str | None) -> None:
        super().__init__(
            f"another writer appended first (expected {expected!r} to be last, found {found!r}): "
            "call session.refresh(), then append again or branch"
        )
        self.expected = expected
        self.found = found


class SessionExists(Conflict):
    def __init__(self, id: str) -> None:
        StorageError.__init__(self, f"a session {id!r} already exists: open it or choose another id")
        self.expected = None
        self.found = id


class ReadOnly(StorageError):
    pass


class FormatError(StorageError):
    pass


class NotJson(FormatError):
    pass


class NewerFormat(StorageError):
    def __init__(self, what: str, version: int, known: int) -> None:
        super().__init__(
            f"{what} has version {version}; this release reads versions up to {known}: upgrade refold"
        )
        self.version = version


class DoesNotFit(RefoldError):
    """The irreducible part alone passes the budget, or what a `design` keeps. `parts` maps each part to its
    tokens."""

    def __init__(self, budget: int, parts: dict[str, int], design: str = "") -> None:
        listed = ", ".join(f"{name} {size}" for name, size in parts.items())
        kept = f"what the preset {design} keeps" if design else "what cannot be folded"
        other = ', another preset or fallback="digest"' if design else ""
        super().__init__(
            f"{kept} needs {sum(parts.values()):,} tokens; the budget is {budget:,} ({listed}): "
            f"shorten one of these, or use a larger budget or window{other}"
        )
        self.budget = budget
        self.parts = parts


class StalePlan(RefoldError):
    def __init__(self) -> None:
        super().__init__("the session changed after this plan was made: call engine.plan again")


class OverflowAgain(RefoldError):
    def __init__(self) -> None:
        super().__init__(
            "the provider refused the context twice, even after a fold: "
            "lower the window setting or start a new session"
        )


class PluginError(RefoldError):
    """What an application brought along does not work. `__cause__` is what it raised."""


class ModelError(RefoldError):
    pass


class ModelUnavailable(ModelError):
    pass


class Overflow(ModelError):
    """`window` is the true window where the provider named it. Not `certain`: it may have meant something
    else, unless the request was large."""

    def __init__(self, text: str, window: int | None = None, *, certain: bool = True) -> None:
        super().__init__(text)
        self.window = window
        self.certain = certain


class Transient(ModelError):
    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class BadAnswer(ModelError):
    """`code` names what was wrong with it: empty, truncated, refusal, tool_call, inflated …"""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class PluginGuard:
    """Around a call of code that an application may have brought along: what it raises comes out as an error
    of refold that names it."""

    def __init__(self, title: str, kind: type[RefoldError] = PluginError) -> None:
        self.title, self.kind = title, kind

    def __enter__(self) -> PluginGuard:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, RefoldError):
            raise self.kind(f"{self.title} failed: {type(error).__name__}: {sentence(error)}") from error

    def refuse(self, value: object, wanted: str) -> RefoldError:
        """For an answer that is not what was wanted."""
        return self.kind(f"{self.title} gave a {type(value).__name__}: {wanted}")
