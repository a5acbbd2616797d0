"""A message in a few words: what was said, and a tool's main argument."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Any

from refold.facts.hunks import short_change
from refold.facts.shell import parse, without_folder
from refold.facts.todos import todos
from refold.facts.tools import Action, actions
from refold.messages import Call, compact_json
from refold.session.toolnames import (
    DIRECTORIES,
    PATTERNS,
    argument,
    command_line,
    kind,
    text_argument,
)
from refold.text.patterns import lazy_pattern
from refold.text.plural import counted
from refold.text.sentences import split_sentences
from refold.text.truncate import in_short, one_line, tail

SAID = 160
"""Characters of what was said with a call."""
CONCLUSION, FINDING = 320, 240
"""Characters of a reply that ends a turn, and of what was said in the middle of one."""
ARGUMENT, _FOLDER = 120, 40
_READ, _COMMAND = 8_000, 2_000
"""Characters of what was said, and of a command, that are looked at."""


# ── words ───────────────────────────────────────────────────────────────────────────────────────

ELLIPSIS = "…"
"""Stands where something is left out."""
_FENCE = re.compile(r"^[ \t]*+```[^\n]*\n((?s:.*?))(?:^[ \t]*+```|\Z)", re.M)
_CODE_LINE = 100
"""Characters of the first line of a code block, which stands for all of it."""
_HEADING = re.compile(r"\s{0,3}#{1,6}\s")
_ITEM = re.compile(r"\s{0,40}(?:[*\-+•]|(\d{1,3}[.)]))\s")
_MARKUP = re.compile(r"^>\s|^(?:<\w[\w:-]{0,40}>)+|</\w[\w:-]{0,40}>$|\*\*")
_DRAWN = ("|", "├", "│", "└", "┌", "<", "{")
"""What a row of a table, a drawing or a page begins with."""
_LETTER = re.compile(r"[^\W_]")
_SENTENCE_END = lazy_pattern(r"[.!?…:。！？；：][\"'”’)\]」』）`*_]{0,8}$")
_WIDE_END = lazy_pattern(r"[\u3001\u3002\uff01\uff1b\uff1f\u300d\u300f][”’」』）]*$")
"""Sentences of a script without spaces follow one another without one."""
_ANNOUNCES = (":", "：")
_ASKS = ("?", "？")
_NAME = re.compile(r"`|\d|\w[_/.]\w|[a-z][A-Z]")
"""In a word that names something: code, a number, a path."""
_REASONS = lazy_pattern(
    r"\b(?:because|since|instead|decid\w*|cause[ds]?|reason|but|fix\w*|fail\w*|pass(?:es|ed)?|works?"
    r"|broken|wrong|bug|problem|must|should|only|never|not|cannot|can't)\b",
    re.I,
)
"""Words of sentences that decide, explain or judge. They rank; length and names do so in every language."""
_FIRST = 2
"""What the first block of a reply weighs more than others."""
_ADDRESS = re.compile(r"https?://\S+")
_LONG = 120
"""So many characters count as much as a name."""


def conclusion(text: str, limit: int = CONCLUSION) -> str:
    """What carries a reply, a plan or a report, quoted in one line (R23): all of a short one; of a longer one
    the blocks that rank highest, each whole or up to the end of a sentence, in their order."""
    blocks = _blocks(text, limit)
    if len(whole := _joined([sentence for block in blocks for sentence in block])) <= limit:
        return whole
    order = sorted(range(len(blocks)), key=lambda at: -_rank(blocks, at))
    quoted: dict[int, Sequence[str]] = {}
    room = limit - len(f"{ELLIPSIS} ")
    for at in order:
        sentences = _beginning(blocks[at], room - len(f" {ELLIPSIS} "))
        if not sentences and not quoted:  # what tells most is cut rather than left out
            sentences = [in_short(blocks[at][0], room - len(f" {ELLIPSIS} "))]
        if sentences and (weight(_joined(sentences)) or not quoted):
            quoted[at] = sentences
            room -= len(_joined(sentences)) + len(f" {ELLIPSIS} ")
    parts: list[str] = []
    for at, block in enumerate(blocks):
        sentences = quoted.get(at, ())
        parts += sentences
        if len(sentences) < len(block):
            parts.append(ELLIPSIS)
    return in_short(_joined(parts), limit)


def _blocks(text: str, most: int) -> list[list[str]]:
    """What stands together in a text, as sentences and items: a paragraph, or a list with what announces it,
    up to so many characters. Headings are left out; code is its first line, and a drawing a gap."""
    blocks: list[list[str]] = [[]]
    for row in _FENCE.sub(_first_line, text[:_READ]).split("\n"):
        if _HEADING.match(row) or not row.strip():
            if blocks[-1] and not blocks[-1][-1].endswith(_ANNOUNCES):
                blocks.append([])
            continue
        for sentence in _sentences(row):
            block = blocks[-1]
            if block and sentence[0].islower() and not (_ITEM.match(row) or _SENTENCE_END.search(block[-1])):
                block[-1] += f" {sentence}"
            elif block and len(_joined([*block, sentence])) > most:
                blocks.append([sentence])
            else:
                block.append(sentence)
    told = [block for block in blocks if block]
    return told if any(block != [ELLIPSIS] for block in told) else []


def _first_line(code: re.Match[str]) -> str:
    """The first line of a code block, in quotes; a gap for one that was not announced, and for a drawing."""
    announced = code.string[: code.start()].rstrip().endswith(_ANNOUNCES)
    lines = [line.strip() for line in code[1].split("\n") if _LETTER.search(line)]
    if not announced or not lines or lines[0].startswith(_DRAWN):
        return f"{ELLIPSIS}\n"
    return f"`{in_short(lines[0], _CODE_LINE)}{f' {ELLIPSIS}' if len(lines) > 1 else ''}`\n"


def _sentences(row: str) -> list[str]:
    """The sentences of a row in plain words; the number of an item stays with its first."""
    line = _MARKUP.sub("", row.strip())
    item = _ITEM.match(line)
    line = " ".join(line[item.end() if item else 0 :].split())
    if line.startswith((ELLIPSIS, *_DRAWN)):
        return [ELLIPSIS]
    if line.startswith("`") and line.endswith("`"):
        return [line]
    sentences = split_sentences(line)
    if item and item[1] and sentences:
        sentences[0] = f"{item[1]} {sentences[0]}"
    return sentences


def _joined(sentences: Sequence[str]) -> str:
    """In one line; what does not end like a sentence is set apart."""
    line, before = "", ""
    for sentence in sentences:
        if sentence != ELLIPSIS or not before.endswith(ELLIPSIS):
            line += _space_after(before) + sentence
        before = sentence
    return line


def _space_after(sentence: str) -> str:
    if not sentence or _WIDE_END.search(sentence):
        return ""
    return " " if _SENTENCE_END.search(sentence) else "; "


def _beginning(block: Sequence[str], room: int) -> Sequence[str]:
    """As many of its first sentences as fit; none that only announces what does not."""
    count = len(block)
    while count and (
        len(_joined(block[:count])) > room or (count < len(block) and block[count - 1].endswith(_ANNOUNCES))
    ):
        count -= 1
    return block[:count]


def _rank(blocks: Sequence[Sequence[str]], at: int) -> int:
    """What comes first tells how it went, as a rule, if it tells anything. A question at the end comes before
    all: without it a proposal reads like what was done."""
    last = at == len(blocks) - 1
    if last and blocks[at][-1].endswith(_ASKS):
        return _READ
    tells = weight(_joined(blocks[at]))
    return tells + last + (_FIRST if at == 0 and tells else 0)


def weight(text: str) -> int:
    """How much a text tells, by the names, the reasons and the length of it, without addresses on the web."""
    text = _ADDRESS.sub("", text[:_READ])
    names = {word for word in text.split() if _NAME.search(word[:ARGUMENT])}
    reasons = {word.lower() for word in _REASONS.findall(text)}
    return min(len(names), 2) + min(len(text) // _LONG, 2) + 2 * min(len(reasons), 3)


def said(text: str) -> str:
    """What was said with a call."""
    return conclusion(text, SAID)


def report(text: str, limit: int) -> str:
    """What an answer says first: its first block, or the beginning of JSON; nothing of a drawing or page."""
    begins = text[:400].lstrip()
    if begins.startswith(("{", "[")):
        return in_short(text, limit)
    blocks = [] if begins.startswith(_DRAWN) else _blocks(text, _READ)
    first = blocks[0] if blocks else []
    if len(told := _joined(first)) <= limit:
        return told
    whole = _beginning(first, limit - len(f" {ELLIPSIS}"))
    return _joined([*whole, ELLIPSIS]) if whole else in_short(told, limit)


# ── calls ───────────────────────────────────────────────────────────────────────────────────────

_WORDS = (
    "query", "url", "subject", "description", "prompt", "plan", "question", "thought", "task", "message",
    "skill", "expression", "command",
)  # fmt: skip
"""Arguments that tell by themselves what a call is about."""


def main_argument(call: Call, cwd: str = "") -> str:
    """What a call is about, in at most `ARGUMENT` characters. Paths below `cwd` are given from there, but in
    commands, which are quoted as they are."""
    what = kind(call.name)
    if what == "bash":
        return _command(call, cwd)
    if what in ("grep", "glob"):
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
    return in_short(text.replace(f"{cwd}/", "") if cwd else text, ARGUMENT)


def _command(call: Call, cwd: str) -> str:
    """The command, with the folder it runs in where that is another one; a patch by its files. Of a long line
    both ends: the last command may be what it is there for."""
    line = command_line(call).strip()
    if "*** Begin Patch" in line[:2_000] or line.startswith(("edit ", "insert ")):
        done = actions(call, "the open file")
        return in_short(f"{line.split(None, 1)[0]} {_changes(done)}" if done else line, ARGUMENT)
    line = line.replace("\\\n", " ").strip()
    folder = _folder(call, line, cwd)
    if len(folder) > _FOLDER:
        folder = f"…{folder[below:]}" if (below := folder.find("/", -_FOLDER)) > 0 else "…"
    where = f" (in {folder})" if folder else ""
    line = " ".join((command_in_short(without_folder(line)) or _other(call)).split())
    return _both_ends(line, ARGUMENT - len(where)) + where


def _both_ends(line: str, limit: int) -> str:
    """Two thirds of it from the start; between words where they end near."""
    if len(line) <= limit:
        return line
    end = tail(line, limit // 3)
    space = end.find(" ")
    return one_line(line, limit - len(end)) + (end[space:] if 0 <= space < len(end) // 2 else end)


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
    below = next((simple.folder for simple in parse(line).commands if simple.program != "cd"), "")
    folder = posixpath.normpath(posixpath.join(cwd, start, below))
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


def _range(call: Call) -> str:
    """The lines that were asked for: `:10-60`, `:10-` to the end."""
    # Some agents send every argument as text.
    both = re.findall(r"-?\d{1,9}", str(call.arguments.get("view_range", ""))[:80])
    if len(both) == 2:
        first, last = map(int, both)
        return f":{first}-{last if last > 0 else ''}"
    first = argument(call, ("offset", "start_line", "startLine", "line_number", "StartLine"))
    last = argument(call, ("end_line", "endLine", "EndLine"))
    count = argument(call, ("limit",))
    if not _is_line(first):
        return ""
    if not _is_line(last) and _is_line(count):
        last = first + count - 1
    return f":{first}-{last}" if _is_line(last) else f":{first}"


def _is_line(value: Any) -> bool:
    return isinstance(value, int) and 0 < value < 10**9


def _todos(call: Call) -> str:
    listed = todos(call)
    if not listed:
        return ""
    now = next((todo.text for todo in listed if todo.status == "in_progress"), "")
    done = sum(not todo.open for todo in listed)
    return f"{done} of {len(listed)} done" + (f", now: {now}" if now else "")


def _other(call: Call) -> str:
    """Of a tool that nobody knows: the argument that tells what it is about, or else all of them."""
    if call.raw is not None:
        return call.raw[: ARGUMENT * 8]
    if telling := text_argument(call, _WORDS).strip():
        # SWE-agent's commands repeat the name of the tool.
        return "" if telling == call.name else telling.removeprefix(f"{call.name} ")
    only = next(iter(call.arguments.values())) if len(call.arguments) == 1 else None
    return only if isinstance(only, str) else compact_json(call.arguments) if call.arguments else ""
