"""A message in a few words: what was said, and a tool's main argument."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast

from refold.facts.hunks import short_change
from refold.facts.shell import folder_before, parse, without_folder
from refold.facts.todos import todos
from refold.facts.tools import Action, actions
from refold.messages import Call, compact_json
from refold.session.toolnames import (
    COMMAND_ARGUMENTS,
    DIRECTORIES,
    PATHS,
    PATTERNS,
    argument,
    command_line,
    kind,
    text_argument,
)
from refold.session.toolstatus import decoded_json
from refold.text.patterns import lazy_pattern
from refold.text.plural import counted
from refold.text.sentences import split_sentences
from refold.text.truncate import in_short

SAID = 160
"""Characters of what was said with a call."""
ARGUMENT = 120
CONCLUSION, FINDING = 320, 240
"""Characters of a reply that ends a turn, and of what was said in the middle of one."""
_READ = 4_000
"""Characters of what was said that are looked at."""
_LARGEST = 100_000
"""Characters of an answer in JSON that is read."""


# ── words ───────────────────────────────────────────────────────────────────────────────────────

_MARKUP = lazy_pattern(
    r"^(?:[#>*\-+•]{1,12}\s+|\d{1,3}[.)]\s+|\*\*|__|<\w[\w:-]{0,40}>)+|\*\*|`{3,}\w*"
    r"|</\w[\w:-]{0,40}>$|(?<=[^\W\d_][:;!?])1[.)]$"  # a tag around it; the number of what comes next
)
_FENCE = re.compile(r"^```[^\n]*\n(?s:.*?)(?:^```|\Z)", re.M)
_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_NUMBER = re.compile(r"\W*(?:\d{1,3}[.)])?\W*")
"""The number of an item, or no more than its mark."""
_ITEM = re.compile(r"\s{0,40}(?:[*\-+•]|\d{1,3}[.)])\s")
_WHOLE = lazy_pattern(r"[.!?…:。！？；：][\"'”’)\]」』）`*_]{0,8}$")
"""The end of a sentence."""
_ADDRESS = re.compile(r"\S\shttps?://\S{1,2000}$")
"""What ends in one is said as well, without a full stop."""
_DRAWN = ("|", "├", "│", "└", "┌", "<", "{", "[")
_LETTERS = re.compile(r"[^\W\d_]+")
_WIDE = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_GOES_ON = re.compile(r"\s(?:\d{1,2}|[^\W\d_])\.$")
"""`am 3. Mai`, `z. B.`: no end of a sentence."""
_WIDE_END = lazy_pattern(r"[\u3001\u3002\uff01\uff1b\uff1f\u300d\u300f][”’」』）]*$")
"""Sentences of a script without spaces follow one another without one."""


_CODE = re.compile(r"`|\d|\w[_/.]\w|[a-z][A-Z]")
_WEIGHTY = lazy_pattern(
    r"\b(?:because|since|instead|decid\w*|chose\w*|cause[ds]?|reason|means|turns out|actually|but|however"
    r"|fix\w*|fail\w*|pass(?:es|ed)?|work(?:s|ed)?|broken|wrong|bug|problem|issue|found|must|should|need\w*"
    r"|only|never|next|remain\w*|todo|open|blocked|done|not|now|so that|weil|statt\w*|soll\w*|nicht"
    r"|fehl\w*)\b|\?$|[因决定改修错应该]",
    re.I,
)
_LEADS_IN = re.compile(
    r"(?:Here(?:'s| is| are)|Let(?: me|'s| us)|I(?:'ll| will| need to|'m going to)|We(?:'ll| will| need to)"
    r"|Now|Great|Perfect|Excellent|Sure)\b|.*:$",
    re.I,
)


_CORRECTS = re.compile(r"^(?:But|However|Actually|Wait|Though|No,)\b|\b(?:though|after all)\b")
"""A sentence with one of these may correct the one before: it comes first of the two."""
_ANNOUNCES = 48
"""Characters of a sentence that only announces the next."""


class _Piece(NamedTuple):
    """A sentence, or a row that is none."""

    text: str
    item: bool
    """It stands in a list."""
    whole: bool
    """It ends like a sentence."""


def telling(text: str) -> list[str]:
    """The sentences and items of lists of a text that say something, without code, drawings, headings and
    marks; at least the first row."""
    found = _pieces(text)
    return [piece.text for piece in found if piece.whole or piece.item] or [x.text for x in found[:1]]


def _pieces(text: str) -> list[_Piece]:
    """What says something: all of a text but headings, code and drawings."""
    wrapped: list[list[str]] = []
    for row in _FENCE.sub("\n", text[: 2 * _READ]).split("\n"):
        if wrapped and _continues(row, wrapped[-1]):
            wrapped[-1].append(row)
        else:
            wrapped.append([row])
    found = [
        _Piece(line, _ITEM.match(row) is not None, (_WHOLE.search(line) or _ADDRESS.search(line)) is not None)
        for row in (" ".join([first.rstrip(), *map(str.strip, more)]) for first, *more in wrapped)
        if not _HEADING.match(row)
        for line in _sentences(row)
    ]
    return [piece for piece in found if _tells(piece)] or found[:1]


def _continues(row: str, before: Sequence[str]) -> bool:
    """Whether a row goes on with the sentence of those before: it begins with a small letter, below them."""
    first, last = before[0], before[-1].rstrip()
    small = row.lstrip()[:1].islower() and last and not _HEADING.match(first)
    below = _ITEM.match(first) or not row[:1].isspace()
    return bool(small and below and not _WHOLE.search(last))


def _joined(pieces: Sequence[_Piece]) -> str:
    """In one line; what does not end like a sentence is set apart."""
    told = ""
    for at, (text, _, whole) in enumerate(pieces, 1):
        space = "" if at == len(pieces) or _WIDE_END.search(text) else " " if whole else "; "
        told += text + space
    return told


def _weight(line: str) -> int:
    words = {found.lower() for found in _WEIGHTY.findall(line)}
    return 2 * bool(_CODE.search(line)) + 2 * min(len(words), 3) - 4 * bool(_LEADS_IN.match(line))


@lru_cache(maxsize=1_024)
def weight(text: str) -> int:
    """How telling the most telling sentence of a text is that names something."""
    named = (x.text for x in _pieces(text) if (x.whole or x.item) and _CODE.search(x.text))
    return max(map(_weight, named), default=0)


def conclusion(text: str, limit: int = CONCLUSION) -> str:
    """The sentences that carry a reply, a plan or a report, in their order (R23): those that name something,
    decide something or ask come before those that only lead in. Lists of words rank; none decides."""
    pieces = _pieces(text)
    found = [piece for piece in pieces if piece.whole or piece.item] if len(pieces) > 1 else pieces
    if len(pieces) > 1 and not any(piece.whole for piece in found):
        return ""  # headings and names of things say nothing of how it ended
    found = _without_code(found) or found
    if len(whole := _joined(found)) <= limit:
        return whole
    found = _with_what_they_announce(found)
    weights = [_weight(piece.text) for piece in found]
    weights[0] += 1
    weights[-1] += 1
    for at, piece in enumerate(found[1:], 1):
        if _CORRECTS.search(piece.text):
            weights[at] = max(weights[at], weights[at - 1] + 1)
    left, chosen = limit, set[int]()
    for at in sorted(range(len(found)), key=lambda at: -weights[at]):
        size = len(found[at].text) + 1
        if not chosen or (size <= left and weights[at] >= 0):
            chosen.add(at)
            left -= size
    told = [found[min(chosen)]]
    for at in sorted(chosen)[1:]:
        follows = at - 1 in chosen
        told.append(found[at] if follows else _behind_gap(found[at]))
    return in_short(_joined(told), limit)


def _without_code(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Without what announces code or a drawing, which is not told; a gap stands for both."""
    told, gap = list[_Piece](), False
    for at, piece in enumerate(pieces):
        announces = piece.text[-1:] == ":" and not any(x.item for x in pieces[at + 1 : at + 2])
        if not announces:
            told.append(_behind_gap(piece) if gap and told else piece)
        gap = announces
    return told


def _behind_gap(piece: _Piece) -> _Piece:
    return piece._replace(text=f"… {piece.text.removeprefix('… ')}")


def _with_what_they_announce(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Short sentences that name nothing ("Found the cause.") as one with the next."""
    told = list[_Piece]()
    for piece in pieces:
        before = told[-1] if told else None
        if before and before.whole and len(before.text) <= _ANNOUNCES and not _CODE.search(before.text):
            told[-1] = piece._replace(text=_joined((before, piece)))
        else:
            told.append(piece)
    return told


def said(text: str) -> str:
    """What was said with a call, in one line."""
    return conclusion(text, SAID) or in_short("".join(telling(text)[:1]), SAID)


def report(text: str, limit: int) -> str:
    """What an answer says first: of JSON its short values, of the hits of a search their names; nothing of a
    drawing or a page."""
    begins, hits = text[:400].lstrip(), _HITS.search(text[:_LARGEST])
    if hits or begins.startswith(("{", "[")):
        return in_short(_values(hits[1] if hits else text), limit)
    pieces = [] if begins.startswith(_DRAWN) else _pieces(text)
    told = pieces[:1]
    for piece in pieces[1:]:
        if not (piece.whole or piece.item) or len(_joined([*told, piece])) > limit:
            break
        told.append(piece)
    while len(told) > 1 and told[-1].text.endswith(":"):  # what it announces is not told
        told.pop()
    return in_short(_joined(told), limit)


_HITS = re.compile(r"^Links: (\[\{.*\}\])$", re.M)
_TITLES = ("title", "name", "subject", "path", "file", "filename")


def _values(text: str) -> str:
    """`status: ok, id: 12, items: 3 values`."""
    value = decoded_json(text, _LARGEST)
    if not isinstance(value, dict):
        return _counted(cast("list[Any]", value), bare="") if isinstance(value, list) else ""
    told: list[str] = []
    for name, one in cast("dict[str, Any]", value).items():
        if isinstance(one, list | dict):
            told.append(f"{name}: {_counted(cast('list[Any]', one))}")
        elif one is not None and one != "":
            told.append(f"{name}: {in_short(str(one), 60)}")
    return ", ".join(told[:12])


def _counted(values: Sequence[Any], bare: str = "{} values") -> str:
    """Where they are records with names: `12 values (one; another; a third; …)`; else `bare`."""
    named = [
        in_short(str(next(filter(None, map(cast("dict[str, Any]", record).get, _TITLES)), "")), 60)
        for record in [*values][:3]
        if isinstance(record, dict)
    ]
    more = ["…"] if len(values) > len(named) else []
    names = f" ({'; '.join([*named, *more])})" if all(named) and named else ""
    return f"{len(values)} values{names}" if names else bare.format(len(values))


def _sentences(text: str) -> list[str]:
    """In plain words: without marks."""
    lines: list[str] = []
    for sentence in split_sentences(text):
        line = " ".join(_MARKUP.sub("", sentence).split())
        if lines and _GOES_ON.search(lines[-1]):
            lines[-1] = f"{lines[-1]} {line}"
        elif line:
            lines.append(line)
    return lines


def _tells(piece: _Piece) -> bool:
    """More than courtesy or a drawing: two words, or some characters of a script without spaces. Of a list
    every item tells: one that is not there was not said."""
    line = piece.text[:400]
    if line.startswith(_DRAWN):
        return False
    return (
        (piece.item and not _NUMBER.fullmatch(line))
        or len(_LETTERS.findall(line)) >= 2
        or len(_WIDE.findall(line)) >= 4
    )


# ── calls ───────────────────────────────────────────────────────────────────────────────────────

_WORDS = ("query", "url", "description", "prompt", "question", "thought", "skill", "expression", "command")
"""Arguments that tell by themselves what a call is about."""
_NAMES = ("message", "task", "subject", "name", "title", "plan")
"""Arguments that name it, used where there is no room for all."""


def main_argument(call: Call, cwd: str = "") -> str:
    """What a call is about, in at most `ARGUMENT` characters. Paths below `cwd` are given from there, but in
    commands."""
    what = kind(call.name)
    if what == "bash":
        text = _command(call, cwd)
    elif what in ("grep", "glob"):
        where = text_argument(call, DIRECTORIES)
        text = text_argument(call, PATTERNS) + (f" in {where}" if where else "")
    elif what == "ls":
        text = text_argument(call, DIRECTORIES)
    elif what == "todo":
        text = _todos(call)
    else:
        # SWE-agent's edit names no file: it changes the one that is open.
        text = _files(call, actions(call, "the open file"), cwd)
    text = (text or _other(call))[: ARGUMENT * 16]
    # A command is quoted as it is: its paths become shorter only where the root of them is stated.
    return in_short(text.replace(f"{cwd}/", "") if cwd and what != "bash" else text, ARGUMENT)


def _command(call: Call, cwd: str) -> str:
    """The command, with the folder it runs in where that is another one; a patch by its files."""
    line = command_line(call).strip()
    if "*** Begin Patch" in line[:2_000] or line.startswith(("edit ", "insert ")):
        done = actions(call, "the open file")
        return f"{line.split(None, 1)[0]} {_changes(done)}" if done else line
    folder = _folder(call, line, cwd)
    line = without_folder(line)
    start = line.find("<<")
    end = line.find("\n", start) if start >= 0 else -1
    line = line if end < 0 else f"{line[:end]} …"  # without the body of its here-document
    return line + (f" (in {folder})" if folder else "")


def _folder(call: Call, line: str, cwd: str) -> str:
    given = call.arguments.get("workdir")
    start = given if isinstance(given, str) else ""
    if not start and not line.startswith("cd "):
        return ""
    commands = parse(line).commands
    first = next((at for at, simple in enumerate(commands) if simple.program != "cd"), 0)
    folder = posixpath.normpath(posixpath.join(cwd, start, folder_before(parse(line), first)))
    return "" if folder in (cwd, ".") else folder.removeprefix(f"{cwd}/") if cwd else folder


def _files(call: Call, done: Sequence[Action], cwd: str) -> str:
    if not done:
        return ""
    if done[0].verb == "view":
        text = ", ".join(action.path for action in done[:4]) + _range(call)
    else:
        text = _changes(done, cwd)
    verb = text_argument(call, ("command",)) if kind(call.name) == "editor" else ""
    return f"{verb} {text}" if verb else text


def _changes(done: Sequence[Action], cwd: str = "") -> str:
    """Files with what changed in the last of them, if that is short."""
    prefix = f"{cwd}/" if cwd else ""
    paths = ", ".join(dict.fromkeys(action.path.removeprefix(prefix) for action in done))
    last = done[-1]
    if last.verb in ("create", "write") and last.new and not last.old:
        return f"{paths} ({counted(len(last.new.splitlines()), 'line')})"
    change = short_change(last, max(ARGUMENT - len(paths) - 2, 0)) if len(paths) < ARGUMENT - 20 else ""
    return f"{paths}: {change}" if change else paths


_NUMBERS = re.compile(r"-?\d{1,9}")


def _range(call: Call) -> str:
    """The lines that were asked for: `:10-60`, `:10-` to the end."""
    # Some agents send every argument as text.
    given = [int(number) for number in _NUMBERS.findall(str(call.arguments.get("view_range", ""))[:80])]
    first = _line(argument(call, ("offset", "start_line", "startLine", "line_number", "StartLine")))
    last = _line(argument(call, ("end_line", "endLine", "EndLine")))
    count = _line(argument(call, ("limit",)))
    first, last = map(_line, given) if len(given) == 2 else (first, last or (first + count - 1) * bool(count))
    end = f"-{last}" if last else "-" if given[1:] == [-1] else ""
    return f":{first}{end}" if first else ""


def _line(value: Any) -> int:
    """A line number; 0 where it is none."""
    return value if isinstance(value, int) and 0 < value < 10**9 else 0


def _todos(call: Call) -> str:
    listed = todos(call)
    if not listed:
        return ""
    now = next((todo.text for todo in listed if todo.status == "in_progress"), "")
    done = sum(not todo.open for todo in listed)
    return f"{done} of {len(listed)} done" + (f", now: {now}" if now else "")


def _other(call: Call) -> str:
    """Of an unknown tool: all of its arguments where they are short, otherwise the telling one."""
    if call.raw is not None:
        return call.raw[: ARGUMENT * 8]
    fields = call.arguments
    asked = fields.get("questions")
    if isinstance(asked, list) and asked and isinstance(first := cast("list[Any]", asked)[0], dict):
        fields = cast("dict[str, Any]", first)
    whole = compact_json(fields)
    short = len(whole) <= ARGUMENT
    telling = _WORDS if short else (*_WORDS, *_NAMES, *PATHS, *PATTERNS, *COMMAND_ARGUMENTS)
    if given := text_argument(Call("", "", fields), telling).strip():
        # SWE-agent's commands repeat the name of the tool.
        return "" if given == call.name else given.removeprefix(f"{call.name} ")
    only = next(iter(fields.values())) if len(fields) == 1 else None
    return only if isinstance(only, str) else whole if fields else ""
