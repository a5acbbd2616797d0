"""A message in a few words: what was said, and a tool's main argument."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
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
from refold.text.truncate import in_short, level

SAID = 160
"""Characters of what was said with a call."""
ARGUMENT, _FOLDER = 120, 40
CONCLUSION, FINDING = 320, 240
"""Characters of a reply that ends a turn, and of what was said in the middle of one."""
_READ, _COMMAND = 4_000, 2_000
"""Characters of what was said, and of a command, that are looked at."""
_LARGEST = 100_000
"""Characters of an answer in JSON that is read."""


# ── words ───────────────────────────────────────────────────────────────────────────────────────

_MARKUP = lazy_pattern(
    r"^(?:[#>*\-+•]{1,12}\s+|\d{1,3}[.)]\s+|\*\*|__|<\w[\w:-]{0,40}>)+|\*\*|`{3,}\w*"
    r"|</\w[\w:-]{0,40}>$|(?<=[^\W\d_][:;!?])1[.)]$"  # a tag around it; the number of what comes next
)
_FENCE = re.compile(r"^[ \t]*+```[^\n]*\n((?s:.*?))(?:^[ \t]*+```|\Z)", re.M)
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
    r"|fehl\w*)\b|[因决定改修错应该]",
    re.I,
)
_LEADS_IN = re.compile(
    r"(?:Here(?:'s| is| are)|Let(?: me|'s| us)|I(?:'ll| will| need to|'m going to)|We(?:'ll| will| need to)"
    r"|Now|Great|Perfect|Excellent|Sure)\b",
    re.I,
)


_CORRECTS = re.compile(r"^(?:But|However|Actually|Wait|Though|No,)\b|\b(?:though|after all)\b")
"""A sentence with one of these may correct the one before: it comes first of the two."""
_ANNOUNCES = 48
"""Characters of a sentence that only announces the next, or a list."""
_REFERS = lazy_pattern(
    r"(?:… )?(?:(?:and|but|so|also|then|still|yet|however|therefore|hence),? )?(?:"
    r"(?:this|that|these|those)\b"
    r"|dies\w*|das (?:ist|war|heißt|bedeutet)\b|c'est\b|cela\b|ça\b|esto\b|eso\b|это\b|[这那它])",
    re.I,
)
"""What a sentence is about that begins so was said before it."""
_CHAIN = 3
"""Sentences before one that are looked at for what it is about."""
_ASKS = lazy_pattern(r"[?？][\"'”’)\]」』）`*_]{0,8}$")
_OFFER = 4
"""What a question at the end weighs: it says that the rest is a proposal."""
_OPTION = re.compile(r"^\W{0,6}(?:(?:option|approach|plan|variant)\s{1,2})?([1-9]|[a-e])[.):]\W", re.M | re.I)
_PICKS = re.compile(
    r"\b(?:option|approach|plan|variant|number) #?([1-9a-e])\b"
    r"|(?<![\w.,:#/-])([1-9])(?![\w.,:%/-]*\w)|^\W{0,3}([a-e])\W{0,3}$",
    re.I,
)
_ELSEWHERE = re.compile(r"\bgit -C \S+ ")
_JOINTS, _EACH = re.compile(r"( (?:&&|\|\||⏎) |; )"), 20
"""What stands between commands; characters of each of them, at least."""
_PICKING = 80
"""Characters of an answer that picks an option by its number."""
_CODE_LINE, _MORE = 100, " …`"
"""Characters of a line of code that was announced; how it ends where there are more lines."""
_AGAIN = 40, 80
"""A sentence so long is told already where it begins with the same characters, so many of them."""


class _Piece(NamedTuple):
    """A sentence, or a row that is none."""

    text: str
    item: bool = False
    """It stands in a list."""
    whole: bool = False
    """It ends like a sentence."""
    bare: bool = False
    """It announces what is not told: code, a drawing, nothing."""

    @property
    def states(self) -> bool:
        return self.whole or self.item


def telling(text: str) -> list[str]:
    """The sentences and items of lists of a text that say something, without drawings, headings and marks,
    and of code no more than the first line, where it is announced; at least the first row."""
    found = _pieces(text)
    return [x.text for x in found if x.states and _tells(x)] or [x.text for x in found[:1]]


def _pieces(text: str) -> list[_Piece]:
    """What says something: all of a text but headings, code and drawings."""
    rows, start = list[_Piece](), 0
    text = text[: 2 * _READ]
    for code in _FENCE.finditer(text):
        rows += _rows(text[start : code.start()])
        if rows and rows[-1].text.endswith(":"):
            rows[-1] = _with_code(rows[-1], code[1])
        start = code.end()
    rows += _rows(text[start:])
    found = list[_Piece]()
    for piece, after in pairwise((*rows, _Piece(""))):
        announces, told = piece.text.endswith(":"), after.states and _tells(after)
        if _tells(piece) or (announces and told and after.item):
            found.append(piece._replace(bare=piece.bare or (announces and not told)))
    return found or rows[:1]


def _rows(text: str) -> list[_Piece]:
    """The sentences of each row of a text without code; a row may go on in the next."""
    wrapped: list[list[str]] = []
    for row in text.split("\n"):
        if wrapped and _continues(row, wrapped[-1]):
            wrapped[-1].append(row)
        else:
            wrapped.append([row])
    return [
        _Piece(line, _ITEM.match(row) is not None, (_WHOLE.search(line) or _ADDRESS.search(line)) is not None)
        for row in (" ".join([first.rstrip(), *map(str.strip, more)]) for first, *more in wrapped)
        if not _HEADING.match(row)
        for line in _sentences(row)
        if not _NUMBER.fullmatch(line)
    ]


def _with_code(piece: _Piece, code: str) -> _Piece:
    """What announces code, with its first line that is no drawing; not where that is one of many and they are
    no more than shown."""
    lines = [line.strip() for line in code.split("\n") if line.strip()]
    first = next((x for x in lines if _LETTERS.search(x) and not x.startswith(_DRAWN)), "")
    if not first or (len(lines) > 1 and _LEADS_IN.match(piece.text)):
        return piece._replace(bare=True)
    line = in_short(first, _CODE_LINE)
    return piece._replace(text=f"{piece.text} `{line}{_MORE if len(lines) > 1 else '`'}")


def _continues(row: str, before: Sequence[str]) -> bool:
    """Whether a row goes on with the sentence of those before: it begins with a small letter, below them."""
    first, last = before[0], before[-1].rstrip()
    small = row.lstrip()[:1].islower() and last and not _HEADING.match(first)
    below = _ITEM.match(first) or not row[:1].isspace()
    return bool(small and below and not _WHOLE.search(last))


def _joined(pieces: Sequence[_Piece]) -> str:
    """In one line; what does not end like a sentence is set apart."""
    told = ""
    for at, piece in enumerate(pieces, 1):
        space = "" if at == len(pieces) or _WIDE_END.search(piece.text) else " " if piece.whole else "; "
        told += piece.text + space
    return told


def _weight(line: str) -> int:
    words = {found.lower() for found in _WEIGHTY.findall(line)}
    leads_in = line.endswith((":", _MORE)) or _LEADS_IN.match(line)
    return 2 * bool(_CODE.search(line)) + 2 * min(len(words), 3) - 4 * bool(leads_in)


@lru_cache(maxsize=1_024)
def weight(text: str, *, alone: bool = False, told: str = "") -> int:
    """How telling the most telling sentence of a text is that names something; `alone`, of those that can be
    read without what was said before the text. `told`: what was said already."""
    pieces = [x for x in _stated(_pieces(text)) if x.states and not _is_told(x.text, told)]
    pieces = pieces[_referring(pieces) if alone else 0 :]
    named = (x.text for x in pieces if _CODE.search(x.text) and not _ASKS.search(x.text))
    return max(map(_weight, named), default=0)


def conclusion(
    text: str, limit: int = CONCLUSION, *, alone: bool = False, told: str = "", answer: str = ""
) -> str:
    """The sentences that carry a reply, a plan or a report, in their order (R23): those that name something
    or decide something come before those that only lead in; one that says nothing without the one before
    comes with it. Questions are left out, unless they head a list, or end it all: then it was a proposal.
    Lists of words rank; none decides. `alone`: nothing stands before it that its first words could mean.
    `told`: what was said already. `answer`: what the user said next; of options the one that it picks."""
    pieces = _pieces(text)
    if option := picked(text, answer):
        asked = f" … {pieces[-1].text}" if _ASKS.search(pieces[-1].text) else ""
        return in_short(option, limit - len(asked)) + asked
    found = [piece for piece in pieces if piece.states] if len(pieces) > 1 else pieces
    if len(pieces) > 1 and not any(piece.whole for piece in found):
        return ""  # headings and names of things say nothing of how it ended
    found = [piece for piece in _stated(found) if not _is_told(piece.text, told)]
    found = _without_announcements(found) or found
    found = (found[_referring(found) :] or found) if alone else found
    if len(whole := _joined(found)) <= limit:
        return whole
    found = _with_what_they_announce(found)
    chosen = sorted(_chosen(found, limit))
    gaps = {at for before, at in pairwise(chosen) if at - before > 1}
    told = _joined([_behind_gap(found[at]) if at in gaps else found[at] for at in chosen])
    goes_on = [piece.item for piece in found[chosen[-1] :][:2]] == [True, True]
    return in_short(f"{told} …" if goes_on else told, limit)


def _chosen(pieces: Sequence[_Piece], limit: int) -> set[int]:
    """Which of several are told in so many characters: each with those that it needs."""
    needs = _needs(pieces)
    weights = [_weight(piece.text) for piece in pieces]
    weights[0] += 1
    weights[-1] += _OFFER if _ASKS.search(pieces[-1].text) else 1
    for at, piece in enumerate(pieces[1:], 1):
        if _CORRECTS.search(piece.text):
            weights[at] = max(weights[at], weights[at - 1] + 1)
    for at in range(_referring(pieces)):
        weights[at] = -1  # what it is about is not there
    order = sorted(range(len(pieces)), key=lambda at: -weights[at])
    sizes = [len(piece.text) + len(" … ") for piece in pieces]
    chosen, left = set[int](), limit
    for at in order:
        group = {at, *needs[at]} - chosen
        size = sum(sizes[each] for each in group)
        if size > left and _CORRECTS.search(pieces[at].text):
            group, size = {at}, sizes[at]
        if (size <= left and weights[at] >= 0) or not (chosen or group - {at}):
            chosen |= group
            left -= size
    return chosen or {order[0]}


def _needs(pieces: Sequence[_Piece]) -> list[tuple[int, ...]]:
    """For each piece those before it without which it says nothing: what "this" means, what a list is of."""
    needs: list[tuple[int, ...]] = []
    listed: tuple[int, ...] = ()
    for at, piece in enumerate(pieces):
        if not piece.item:
            short = piece.text.endswith(":") and len(piece.text) <= _ANNOUNCES
            listed = (at,) if short or _ASKS.search(piece.text) else ()
        refers = at > 0 and _REFERS.match(piece.text)
        needs.append((*needs[-1][-_CHAIN:], at - 1) if refers else listed if piece.item else ())
    return needs


def _referring(pieces: Sequence[_Piece]) -> int:
    """How many of the first are about what was said before them all."""
    return next((at for at, piece in enumerate(pieces) if not _REFERS.match(piece.text)), len(pieces))


def _stated(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Without questions and what is said of them. One that heads a list stays: the list says nothing without
    it; so does the last one, where all that was said before is a proposal."""
    stated, asked = list[_Piece](), False
    for piece, after in pairwise((*pieces, _Piece(""))):
        last = stated and not asked and not piece.item and not after.text
        asks = _ASKS.search(piece.text) and (piece.item or not after.item) and not last
        asked = bool(asks or (asked and _REFERS.match(piece.text)))
        if not asked:
            stated.append(piece)
        elif stated and stated[-1].text.endswith(":"):
            stated.pop()  # it announced them
    return stated


def _is_told(sentence: str, told: str) -> bool:
    least, most = _AGAIN
    return len(sentence) >= least and sentence[:most] in told


def _without_announcements(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Without what announces something that is not told; a gap stands for both."""
    told, gap = list[_Piece](), False
    for piece in pieces:
        if not piece.bare:
            told.append(_behind_gap(piece) if gap and told else piece)
        gap = piece.bare
    return told


def _behind_gap(piece: _Piece) -> _Piece:
    return piece._replace(text=f"… {piece.text.removeprefix('… ')}")


def _with_what_they_announce(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Short sentences that name nothing ("Found the cause.") as one with the next."""
    told = list[_Piece]()
    for piece in pieces:
        before = told[-1] if told else None
        lists = before and before.text.endswith(":") and piece.item  # it is for all of the items
        short = before and before.whole and len(before.text) <= _ANNOUNCES and not lists
        if before and short and not _CODE.search(before.text):
            told[-1] = piece._replace(text=_joined((before, piece)))
        else:
            told.append(piece)
    return told


def picked(text: str, answer: str) -> str:
    """The option of a reply that a short answer picks by its number; empty where there is none."""
    found = {"".join(groups).lower() for groups in _PICKS.findall(answer[: _PICKING + 1])}
    options = [*_OPTION.finditer(text)] if len(found) == 1 and len(answer) <= _PICKING else []
    at = next((at for at in reversed(range(len(options))) if options[at][1].lower() in found), None)
    if at is None:
        return ""
    last = at + 1 == len(options)
    option = text[options[at].start() : None if last else options[at + 1].start()]
    title, _, rest = option.strip().partition("\n")
    rest = rest.strip().partition("\n\n")[0] if last else rest
    rows = (" ".join(_sentences(title)), _joined(_pieces(rest)) if rest.strip() else "")
    return ": ".join(filter(None, (row.rstrip(":") for row in rows)))


def questions(text: str) -> str:
    """What a reply asks."""
    return in_short(_joined([piece for piece in _pieces(text) if _ASKS.search(piece.text)]), CONCLUSION)


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
        return _counted(cast("list[Any]", value), bare=False) if isinstance(value, list) else ""
    told: list[str] = []
    for name, one in cast("dict[str, Any]", value).items():
        if isinstance(one, list | dict):
            told.append(f"{name}: {_counted(cast('list[Any]', one))}")
        elif one is not None and one != "":
            told.append(f"{name}: {in_short(str(one), 60)}")
    return ", ".join(told[:12])


def _counted(values: Sequence[Any], *, bare: bool = True) -> str:
    """Where they are records with names: `12 values (one; another; a third; …)`; else no more than their
    number, and only if `bare`."""
    named = [
        in_short(str(next(filter(None, map(cast("dict[str, Any]", record).get, _TITLES)), "")), 60)
        for record in [*values][:3]
        if isinstance(record, dict)
    ]
    more = ["…"] if len(values) > len(named) else []
    names = f" ({'; '.join([*named, *more])})" if all(named) and named else ""
    return f"{counted(len(values), 'value')}{names}" if names or bare else ""


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
    return piece.item or len(_LETTERS.findall(line)) >= 2 or len(_WIDE.findall(line)) >= 4


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
    line = line.replace("\\\n", " ").strip()
    folder = _folder(call, line, cwd)
    if len(folder) > _FOLDER:
        folder = f"…{folder[below:]}" if (below := folder.find("/", -_FOLDER)) > 0 else "…"
    where = f" (in {folder})" if folder else ""
    return _each_in_short(command_in_short(without_folder(line)), ARGUMENT - len(where)) + where


def _each_in_short(line: str, limit: int) -> str:
    """A line of several commands: something of each, since the last may be what it is there for."""
    parts = _JOINTS.split(_ELSEWHERE.sub("git ", line) if len(line) > limit else line)
    room = level([*map(len, parts[::2])], limit - sum(map(len, parts[1::2])))
    if room < _EACH:
        return in_short(line, limit)
    return "".join(part if at % 2 else in_short(part, room) for at, part in enumerate(parts))


def command_in_short(line: str) -> str:
    """A command in one line, `⏎` where one ended: without comments, and the body of a here-document."""
    start = line.find("<<")
    end = line.find("\n", start) if start >= 0 else -1
    line = line[:_COMMAND] if end < 0 else f"{line[: min(end, _COMMAND)]} …"
    rows = (row.strip() for row in line.replace("\\\n", " ").split("\n"))
    return " ⏎ ".join(row for row in rows if row and not row.startswith("#")) or line.strip()


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
