"""Identifiers of a text, to measure by: paths, names of code, ids, long numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

SHORTEST, LONGEST = 5, 160

_RUN = re.compile(r"[A-Za-z0-9_./@~+-]{5,400}")
"""All that an identifier can be made of. Longer runs are looked at in pieces, so this is linear."""
_SHAPED = re.compile(r"[0-9_/.]|[a-z][A-Z]|[A-Z][A-Z]+[a-z]")
_FILE = re.compile(
    r"[\w@~+-][\w.@~+-]*\.(?:py[ciwx]?|ipynb|[cm]?[jt]sx?|vue|json[cl5]?|ya?ml|toml|ini|cfg|conf|env|lock|md|mdx|rst|txt|log"
    r"|csv|tsv|xml|html?|s?css|less|svg|png|jpe?g|gif|pdf|sh|bash|zsh|ps1|bat|sql|db|sqlite3?|go|rs|rb|php|pl|lua|java|kts?"
    r"|scala|swift|cs|fs|c|cc|cpp|cxx|h|hh|hpp|m|mm|ex|exs|erl|hs|ml|clj|r|jl|dart|zig|nim|pony|proto|graphql|tf|gradle|cmake"
    r"|mk|zip|gz|tar|tgz|whl|jar|so|dll|exe|bin|patch|diff|traj|com|org|net|io|dev)",
    re.I,
)
"""A file or host by its ending; other dots separate the members of something."""
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_HEX = re.compile(r"[0-9a-f]{7,}(?:-[0-9a-f]{4,})*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d)?")
_WORDS = re.compile(r"[a-z]+[/.-][a-z]+")


def identifiers(text: str) -> Iterator[str]:
    """Every identifier of `text`, in order, repeats included."""
    for run in _RUN.findall(text):
        if len(run) <= LONGEST and _SHAPED.search(run):
            yield from _parts(run.rstrip("./-~@+").lstrip("-@+"))


def _parts(run: str) -> Iterator[str]:
    """The run itself, or, of `this.session.switchBranch` and the like, the names it is made of."""
    if "." in run and "/" not in run and not _FILE.fullmatch(run) and not run[0].isdigit():
        yield from (part for part in run.split(".") if len(part) >= SHORTEST and is_identifier(part))
    elif len(run) >= SHORTEST and is_identifier(run):
        yield run


def is_identifier(run: str) -> bool:
    """A path, a name of code, an id or a number; no plain word, date or version."""
    if "/" in run:
        return not _WORDS.fullmatch(run) and any(map(str.isalnum, run))
    digits = sum(map(str.isdigit, run))
    if digits == len(run) or (digits and _HEX.fullmatch(run)) or _FILE.fullmatch(run):
        return True
    if "." in run or _DATE.fullmatch(run):
        return False
    named = "_" in run and digits < len(run.replace("_", ""))
    return named or bool(_CAMEL.search(run)) or 2 <= digits < len(run)
