"""What a step put into a file, in a few lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import chain
from typing import NamedTuple

from refold.facts.tools import Action, actions, tidy
from refold.messages import Call
from refold.session.toolnames import kind
from refold.text.patterns import lazy_pattern
from refold.text.redact import redact
from refold.text.truncate import head, in_short

ROWS = 8
"""Lines kept of a change."""
_WIDTH = 140
_LONG = 4_000
_READ = 40_000
"""Characters of a text that are looked at."""
_AROUND, _GAP = 2, "…"
"""Lines around a change that are quoted; what stands between two of them."""
_COMPARED = 400
"""Lines of each side of a change that are compared."""
_DEFINES = lazy_pattern(
    r"(?:(?:export|default|public|private|protected|static|abstract|async|override|pub(?:\([a-z]{1,9}\))?)"
    r" ){0,4}(?:def|class|function\*?|fn|func(?: \([^)]{0,80}\))?|interface|struct|enum|trait|impl|type"
    r"|module|namespace|record|(?<=export )(?:const|let)) ([\w$]{1,60})"
)
_CODE_BLOCK = re.compile(r"^ {0,3}```(?s:.*?)(?:\n {0,3}```.*$|\Z)", re.M)
_CONFLICT = re.compile(r"(?:<{7}|\|{7}|={7}|>{7})(?: |$)")
"""What git puts around the sides of a conflict."""
_HEADING = re.compile(r"#{1,4} (\S.{0,59}(?=\s*$)|[^`(]{1,60}(?<=\S)(?!\S))")
"""Its words; of a long one those at its beginning, where nothing is quoted or in brackets."""


class EditSummary(NamedTuple):
    """What one edit changed."""

    text: str
    """In at most `ROWS` lines, `-` taken out, `+` put in; words where the step shows no text."""
    taken_out: list[str]
    """Names that the lines which it took out define: functions, classes; headings of a document."""
    put_in: list[str]


def summarise_edit(action: Action) -> EditSummary:
    if action.verb in ("create", "write") and action.new and not action.old:
        return EditSummary(_contents(action), [], _defined(action, _lines(action.new)))
    changes = _changes(action)
    gone, put = ([_plain(row) for pair in changes for row in pair[side]] for side in (0, 1))
    moved = {*gone} & {*put}
    taken_out, put_in = ([row for row in rows if row not in moved] for rows in (gone, put))
    return EditSummary(_hunk(action, changes), _defined(action, taken_out), _defined(action, put_in))


def _defined(action: Action, lines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for _, name in _definitions(action, lines)))


def _definitions(action: Action, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Lines that define something, in a document its headings, and the names of that."""
    if document := action.path.endswith((".md", ".mdx")):
        # A comment of a shell looks like a heading.
        lines = _CODE_BLOCK.sub("", "\n".join(lines)).split("\n")
    for row in lines:
        found = (_HEADING if document else _DEFINES).match(row.strip()[:200])
        if found and any(map(str.isalpha, found[1])):
            yield row, found[1]


def _hunk(action: Action, changes: Sequence[tuple[list[str], list[str]]]) -> str:
    rows = [in_short(action.how, _WIDTH)] if action.how else []
    for number, (gone, put) in enumerate(changes):
        if number:  # at another place of the file
            rows[-1] = going_on(rows[-1])
        if len(rows) > ROWS - 2:
            break
        rows += _marked("- ", gone, 1 if put else min(ROWS - len(rows), 4))
        rows += _marked("+ ", put, ROWS - len(rows))
    return "\n".join(rows)


def short_change(action: Action, limit: int) -> str:
    """The change in one line, where it is that small: `old → new`, `+ new`."""
    changes = _changes(action)
    if len(changes) == 1:
        before, after = (" ".join(" ".join(rows).split()) for rows in changes[0])
        if before and after and len(before) + len(after) + 3 <= limit:
            return f"{before} → {after}"
    for mark, rows in (("+", [put for _, put in changes]), ("-", [gone for gone, _ in changes])):
        if shown := next((row.strip() for row in chain(*rows) if _says(row)), ""):
            return f"{mark} {in_short(shown, limit - 2)}"
    return ""


def quoted_change(call: Call) -> str:
    """An edit of one text as it is to be read: the file, and the lines that were taken out and put in, with
    those around them. Empty for any other call, and where more was asked for than that."""
    edits = actions(call) if kind(call.name) in ("edit", "editor") and call.raw is None else ()
    edit = edits[0] if len(edits) == 1 else None
    if edit is None or not (edit.old and edit.new) or len(edit.old) + len(edit.new) > _READ:
        return ""
    said = [value for value in call.arguments.values() if value]
    texts = [value for value in said if value not in (edit.old, edit.new, "str_replace", "replace")]
    if len(texts) != 1 or not isinstance(texts[0], str) or tidy(texts[0]) != edit.path:
        return ""
    rows = [*unified_diff(edit.old.splitlines(), edit.new.splitlines(), lineterm="", n=_AROUND)][3:]
    return "\n".join([f"{call.name} {texts[0]}", *(_GAP if row.startswith("@@ ") else row for row in rows)])


def _says(row: str) -> bool:
    """More than a bracket or a rule."""
    return sum(map(str.isalnum, row[:_WIDTH])) > 1


def _lines(text: str) -> list[str]:
    rows = text[:_READ].expandtabs(4).splitlines() if text else []
    return [row for row in rows if not _CONFLICT.match(row)] if "<<<<<<< " in text else rows


def _changes(action: Action) -> list[tuple[list[str], list[str]]]:
    """Lines that were taken out and put in, place by place; no line that stayed, or was only set in."""
    old, new = _lines(action.old), _lines(action.new)
    words = ([_plain(row) for row in rows[:_COMPARED]] for rows in (old, new))
    codes = SequenceMatcher(None, *words, autojunk=False).get_opcodes()
    changes = [(old[a:b], new[c:d]) for kind, a, b, c, d in codes if kind != "equal"]
    if max(len(old), len(new)) > _COMPARED and len(changes) > 1:
        changes.pop()  # what comes behind may be the same
    saying = [change for change in changes if any(map(_says, chain(*change)))]
    return saying or [change for change in changes if any(row.strip() for row in chain(*change))]


def _plain(row: str) -> str:
    return " ".join(row.split())


def _marked(mark: str, rows: Sequence[str], most: int) -> list[str]:
    """The first rows from one on that says something, with their indentation to one another; nothing is left
    out between them but blank lines."""
    saying = [at for at, row in enumerate(rows) if _says(row)]
    kept = [row for row in (rows[saying[0] : saying[-1] + 1] if saying else rows) if row.strip()]
    margin = min((len(row) - len(row.lstrip()) for row in kept[:most]), default=0)
    shown = [mark + _cut(row[margin:]) for row in kept[: max(most, 0)]]
    if shown and len(shown) < len(kept):
        shown[-1] = going_on(shown[-1])
    return shown


def beginning(change: Sequence[str], count: int) -> list[str]:
    """The first lines of a change; none that something replaced without what took its place."""
    shown, replaces = [*change[:count]], "".join(change[count : count + 1]).startswith("+ ")
    while replaces and shown and shown[-1].startswith("- "):
        shown.pop()
    if shown and len(shown) < len(change):
        shown[-1] = going_on(shown[-1])
    return shown


def going_on(row: str) -> str:
    """A row behind which more is left out."""
    return row.removesuffix(" …") + " …"


def _contents(action: Action) -> str:
    """Of a whole file: its length, and what it defines or else begins with."""
    text, rows = action.new, _lines(action.new)
    count = text.count("\n") + (not text.endswith("\n"))
    said = [row.rstrip() for row, _ in _definitions(action, rows)]
    shown = said[: ROWS - 1] or [row.rstrip() for row in rows if _says(row)][:3]
    told = [f"+ {_cut(row)}" for row in shown]
    return "\n".join(told if count == len(told) else [f"{count} line{'s' * (count != 1)}", *told])


def _cut(row: str) -> str:
    """A row that is not too long; what is cut loses its secrets first."""
    return row.rstrip() if len(row) <= _WIDTH else head(redact(row[:_LONG])[0], _WIDTH).rstrip() + " …"
