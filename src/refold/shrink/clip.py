"""A message clipped to a number of tokens (R19): head, end and telling lines stay, and calls as they are.

A clip is computed from the message itself, never from an earlier clip, at a few fixed levels (`LEVELS`), so
the same entry gives the same bytes cold and warm. What is missing is marked with its size and the entry's
number.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, groupby, pairwise
from typing import NamedTuple

import msgspec

from refold.messages import (
    AnyPart,
    Assistant,
    Bash,
    Call,
    Content,
    Image,
    Message,
    Result,
    Text,
    Thinking,
    User,
    compact_json,
    is_typed,
)
from refold.protocols import TokenCounter
from refold.session.toolnames import ToolKind
from refold.session.toolstatus import bare_output, reported_status
from refold.shrink.excerpt import (
    LineSpan,
    SalientLines,
    failure_at,
    lines_left,
    says_error,
    speaks_of_failure,
    without_banner,
    without_context,
    without_numbers,
)
from refold.text.frames import TAG
from refold.text.redact import redact
from refold.text.truncate import head, head_lines, tail, tail_lines

LEVELS: tuple[int, ...] = tuple(round(24 * 2 ** (step / 4)) for step in range(64))
"""Sizes in tokens that a message may be clipped to, its frame on the wire not counted."""
CLIP_OVERHEAD = 40
"""Tokens that a clipped message has at most beyond its level: wire, names and short arguments of a call."""
WORTH = 32
"""A clip that saves less than this is not made."""
_MARK = "[… {cut} tokens, {key} …]"
_GAP = "[…]"
_LEFT_OUT = "…"
_MARK_TOKENS = 10
_GAP_TOKENS = 2
"""Tokens around a line that stands alone."""
_UNDER = 40_000
"""Characters before the end in which its heading is looked for."""
_SHORT = 24
"""Words of at most so many tokens stay: they tell more than a marker."""
_LARGE = 50_000
"""Characters of each end of a text that are looked at, at least, for a quotation."""
_WIDE = 8
"""Characters of a token, at most, where a text is too long to be counted for a quotation."""
_HEADS = {"bash": 0.5, "ls": 0.85, "glob": 0.85, "grep": 0.85}
"""Share of what is kept that stands at the beginning. A log says at its end how it went, a list is sorted by
worth if by anything."""
_HEAD = 0.65
_SPARE = 0.3
"""Share of a beginning or an end that may be lost for it to be of whole lines or words."""
_LINE = 240
"""Characters of a line that is told whole or not at all; a longer one is data."""
_TELLS = 16
"""Characters of the beginning of a line that say something, where no whole line fits."""
_BETWEEN = 0.25
"""Share of a clip for lines between beginning and end that tell something by themselves."""
_ERRORS = 0.75
"""The same where they say what went wrong."""
_TELLING = 60
"""Tokens from which on a clip has such lines."""


class Body(msgspec.Struct, frozen=True, gc=False):
    """What clips of all levels are made of: a text without its tool's envelope and without the numbers of its
    lines."""

    text: str
    size: int
    salient: SalientLines
    line: int
    """Characters of a line that is told whole or not at all."""
    outcome: LineSpan | None
    """The line of a log that says what went wrong, or that nothing did: it is the last to go."""
    errors: int
    """Tokens of all lines that say what went wrong."""


class Texts:
    """The texts that clips of one message are made of, at all levels: each is read and counted once."""

    __slots__ = ("_bodies", "_sizes", "counter", "printed")

    def __init__(self, counter: TokenCounter, printed: Callable[[str], bool] = lambda _: False) -> None:
        """`printed`: whether earlier outputs often began with such a line (`opening_shapes`)."""
        self.counter, self.printed = counter, printed
        self._sizes: dict[str, int] = {}
        self._bodies: dict[str, Body] = {}

    def size(self, text: str) -> int:
        """Tokens of a text that is asked for again."""
        known = self._sizes.get(text)
        if known is None:
            known = self._sizes[text] = self.counter.text(text)
        return known

    def body(self, text: str, kind: ToolKind, key: str) -> Body:
        body = self._bodies.get(text)
        if body is None:
            plain = bare_output(text)
            plain = without_context(plain, key) if kind == "grep" else plain
            plain = without_banner(plain, self.printed, key) if kind == "bash" else plain
            # Of a file every line may have to be matched.
            plain = without_numbers(plain if kind in _FILES else _once(plain), kind)
            plain = _with_short_comment(plain, key) if kind in _FILES else plain
            by_record = _by_record(plain)
            plain, line = (by_record, len(by_record)) if by_record else (plain, _LINE)
            size = self.size(text) if plain == text else self.counter.text(plain)
            refused = kind in _CHANGES and speaks_of_failure(_opening(plain))
            failed = refused or _reports_failure(plain)
            salient = SalientLines(plain, "other" if refused else kind)
            outcome = salient.outcome(failed=failed) if failed or kind == "bash" else None
            errors = [plain[slice(*place)] for place in salient.errors()] if outcome else []
            told = sum(map(self.counter.text, errors)) + _GAP_TOKENS * len(errors)
            body = self._bodies[text] = Body(plain, size, salient, line, outcome, told)
        return body


_FILES: tuple[ToolKind, ...] = ("read", "editor")
_COMMENT = re.compile(
    r'(?:\(lines .*\)\n)?(?:#!.*\n)?(?:/\*(?s:.{0,8000}?)\*/|"""(?s:.{0,8000}?)"""|(?:(?:#|//).*\n){1,100})'
)
_COMMENT_LINES = 3
"""Lines that stay of a comment in front of a file: what is imported comes behind it."""


def _with_short_comment(text: str, key: str) -> str:
    comment = _COMMENT.match(text)
    rows = comment[0].rstrip("\n").split("\n") if comment else []
    if comment is None or len(rows) < 2 * _COMMENT_LINES:
        return text
    left = lines_left(len(rows) - _COMMENT_LINES, " of a comment", key)
    return "\n".join([*rows[:_COMMENT_LINES], left, text[comment.end() :].lstrip("\n")])


_CHANGES: tuple[ToolKind, ...] = ("edit", "editor", "write", "create", "patch")
"""What these show is code, but where they refuse, they say why."""


def _opening(text: str) -> str:
    return text[:_LINE].lstrip().split("\n", 1)[0]


def _reports_failure(output: str) -> bool:
    """Whether a log begins or ends with an exit status other than 0."""
    rows = _opening(output), output[-_LINE:].rstrip().rsplit("\n", 1)[-1]
    return any(reported_status(row.strip()) for row in rows)


_BAR = re.compile(r"[\W\d_]+")


def _once(text: str) -> str:
    """Lines that are the same one after the other, and steps of a progress bar, as the last one with their
    number."""
    kept = list[str]()
    for _, same in groupby(text.split("\n"), key=lambda row: _BAR.sub("", row) if "%" in row else row):
        run = list(same)
        once = len(run) > 2 and len(run[-1]) >= 8
        kept += [f"{run[-1]} [×{len(run)}]"] if once else run
    return "\n".join(kept)


_JSON = re.compile(r'"(?>(?:[^"\\]|\\.)*)"|[\[{\]]|\}(\s*+,\s*+(?=\{))?')


def _by_record(text: str) -> str | None:
    """JSON on one line with a line for each record, so that no clip ends one with the values of another; None
    where it has no records."""
    if not text.lstrip().startswith(("[", "{")) or "\n" in text.strip():
        return None
    depth, ends = 0, dict[int, list[int]]()
    for found in _JSON.finditer(text):
        depth += 1 if found[0] in "[{" else -1 if found[0][0] in "]}" else 0
        if found[1] is not None:
            ends.setdefault(depth, []).append(found.end())
    if not ends:
        return None
    places = pairwise((0, *ends[min(ends)], len(text)))
    return "\n".join(text[start:end].rstrip() for start, end in places)


def clip_message(
    message: Message, tokens: int, texts: Texts, *, key: str, kind: ToolKind = "other"
) -> Message:
    """The message in about `tokens` tokens. `key` names its entry, `kind` says what it shows, where it is a
    result; `texts` are those of the message, and may be used again at another level."""
    match message:
        case Assistant():
            return _reply(message, tokens, texts, key)
        case Result() | User():
            typed = [is_typed(message, part) for part in message.content]
            if any(typed) and not all(typed):
                content = _around_typed(message.content, typed, tokens, texts, key)
            else:
                joined = _joined(message.content)
                if type(message) is User and f"<{TAG}" in joined:
                    return msgspec.structs.replace(message, content=(_frame(joined, tokens, texts, key),))
                short = clip_text(joined, tokens, texts, key, kind)
                content = _with_note(message.content, short, key)
            return msgspec.structs.replace(message, content=content)
        case Bash():
            output = clip_text(message.output, tokens, texts, key, "bash")
            return msgspec.structs.replace(message, output=output)
        case _:
            return message


_FRAMED = re.compile(rf"((?s:.{{0,400}}?)<{TAG}[^>\n]{{0,400}}>\n)((?s:.*))(\n</{TAG}>[^<]{{0,400}})")


def _frame(text: str, tokens: int, texts: Texts, key: str) -> Text:
    """A quoted record in the user's role, clipped inside of its frame; one of another shape is only named."""
    framed = _FRAMED.fullmatch(text)
    if framed is None or f"<{TAG}" in framed[2] or f"</{TAG}" in framed[2]:
        return Text(_MARK.format(cut=texts.size(text), key=key), "summary")
    around = texts.size(framed[1]) + texts.size(framed[3])
    return Text(framed[1] + clip_text(framed[2], max(tokens - around, 1), texts, key) + framed[3], "summary")


def clip_text(text: str, tokens: int, texts: Texts, key: str, kind: ToolKind = "other") -> str:
    """Beginning and end of a text, and the lines between that tell most, in at most `tokens` tokens."""
    if len(text) <= tokens or texts.size(text) <= tokens:
        return text
    whole, body, counter = text, texts.body(text, kind, key), texts.counter
    text, size = body.text, body.size
    if size <= tokens or (size <= tokens + _MARK_TOKENS and text != whole):
        return text  # what a mark would cost is nearly all that is left to save
    room = max(tokens - _MARK_TOKENS, 1)
    between = max(int(room * _BETWEEN), min(body.errors, int(room * _ERRORS))) if room >= _TELLING else 0
    edges = _edges(body, room - between, counter, kind)
    wanted = _wanted(body, edges)
    if wanted is not None:
        between = max(between, min(counter.text(text[slice(*wanted)]) + _GAP_TOKENS, room))
        edges = _edges(body, room - between, counter, kind)
        wanted = _wanted(body, edges) or wanted
        edges = _beside(wanted, edges, text, counter)
    places, told = _between(body, edges, between, counter, wanted)
    if between and not places:
        edges = _edges(body, room, counter, kind)
    mark = _MARK.format(cut=max(size - edges.tokens - told, 1), key=key) if key else _GAP
    return _put_together(text, edges.head, places, edges.tail, mark)


def _put_together(text: str, head: int, places: Sequence[LineSpan], tail: int, mark: str) -> str:
    """Beginning, lines and end. The marker stands in the first gap, on a line of its own, so that nothing it
    stands between reads as one; further gaps have a shorter one."""
    shown = [place for place in ((0, head), *places, (tail, len(text))) if place[0] < place[1]]
    rows, before = list[str](), -1  # as if a line had ended before the text
    for start, end in (*shown, (len(text) + 1, len(text) + 1)):
        # A line that is cut short says so itself; where only a blank line is missing nothing is.
        says = start > before + 1 and not text[max(before, 0) : start].isspace()
        if says and (mark != _LEFT_OUT or text.find("\n", before, start - 1) >= 0):
            rows.append(mark)
            mark = _LEFT_OUT
        row = text[start:end]
        if start and start <= len(text) and text[start - 1] != "\n":
            row = f"{_LEFT_OUT} {row.lstrip()}"
        if end < len(text) and text[end] != "\n":
            row = f"{row.rstrip()} {_LEFT_OUT}"
        rows.append(row)
        before = end
    return "\n".join(rows[:-1])


class Edges(NamedTuple):
    """What stays of a text at its beginning and at its end."""

    head: int
    """Where the beginning ends."""
    tail: int
    """Where the end begins."""
    tokens: int


_HEADS_ROWS = re.compile(r"^(?:#{2,6} \S|diff --git |\+\+\+ \S).*", re.M)
"""A line that says what those below it are about: a heading of a document, a file of a diff."""


def _wanted(body: Body, edges: Edges) -> LineSpan | None:
    """The line between the edges without which they mislead: the one that says how a log ended, the one that
    the end stands under."""
    if body.outcome is not None:
        place = body.outcome[0] + failure_at(body.text[slice(*body.outcome)])
        return body.outcome if edges.head <= place < edges.tail else None
    if edges.tail == len(body.text) or _HEADS_ROWS.match(body.text, edges.tail):
        return None
    start = max(edges.head, edges.tail - _UNDER)
    found = deque(_HEADS_ROWS.finditer(body.text, start, edges.tail), maxlen=1)
    return found[0].span() if found and len(found[0][0]) <= _LINE else None


def _beside(line: LineSpan, edges: Edges, text: str, counter: TokenCounter) -> Edges:
    """Edges without what they have of a line that is told by itself."""
    head = min(edges.head, max(line[0] - 1, 0))
    tail = max(edges.tail, text.find("\n", line[1]) + 1 or len(text))
    return Edges(head, tail, counter.text(text[:head]) + counter.text(text[tail:]))


def _edges(body: Body, room: int, counter: TokenCounter, kind: ToolKind) -> Edges:
    """Beginning and end in `room` tokens, cut at line ends where one is near. The last line of a log stays
    whole, at the expense of its beginning: half of `1 failed, 61 passed` lies."""
    text, size, longest = body.text, body.size, body.line
    share, chars = _HEADS.get(kind, _HEAD), max(int(len(text) * room / size), 4)
    line = _last_line(text) if kind == "bash" else ""
    if body.outcome is not None:
        line = line[_details(text, len(text) - len(line)) :]
    whole = counter.text(line) if len(line) <= 4 * room else room + 1
    for _ in range(12):
        begins = int(chars * share)
        last = _whole_tail(text, chars - begins, longest)
        if not any(map(str.isalnum, last)):
            last = ""  # the brackets at the end of a file tell nothing
        if body.outcome is not None:
            details = _details(text, len(text) - len(last))
            begins, last = begins + details, last[details:]
        first = _whole_head(text, begins, longest)
        if len(last) < len(line) and whole <= room:
            first, last = _whole_head(text, len(first) * (room - whole) // room, longest), line
        elif not last:
            first = _whole_head(text, chars, longest)
        elif not first:
            last = _whole_tail(text, chars, longest)
        used = counter.text(first) + counter.text(last)
        if used <= room:
            break
        chars = int(chars * min(0.95, room / used))
    else:
        return Edges(0, len(text), 0)
    if not used:
        first, used = _beginning(text, chars, room, counter)
    return Edges(len(first), len(text) - len(last), used)


def _last_line(text: str) -> str:
    """The last line of a log, with the one before it where it only reports the exit status."""
    end = len(text.rstrip())
    start = text.rfind("\n", 0, end) + 1
    if start and reported_status(text[start:end].strip()) is not None:
        start = text.rfind("\n", 0, start - 1) + 1
    return text[start:]


_HEADLINE = re.compile(r"\n(?=\S)")
_REACH = 4_000
"""Characters before a place in which the line is looked for that the rows there belong to."""


def _details(text: str, start: int) -> int:
    """Characters at the start of an end of a log that belong to an error whose line is cut: the rest of that
    line, and indented rows."""
    before = _HEADLINE.finditer(text, max(start - _REACH, 0), start + 1)
    headline = max((found.end() for found in before), default=start)
    if headline == start or not says_error(text[headline : headline + _LINE]):
        return 0
    after = _HEADLINE.search(text, start)
    return (after.end() if after else len(text)) - start


def _beginning(text: str, chars: int, room: int, counter: TokenCounter) -> tuple[str, int]:
    """Where no line fits: the beginning of the first, if that says something."""
    while chars >= _TELLS:
        first = head_lines(text, chars, _SPARE)
        used = counter.text(first)
        if used <= room:
            return (first, used) if len(first) >= _TELLS else ("", 0)
        chars = int(chars * 0.8)
    return "", 0


def _whole_head(text: str, chars: int, longest: int) -> str:
    """A beginning without the half of a line at its end, where that line is not longer than `longest`."""
    first = head_lines(text, chars, _SPARE)
    start, end = first.rfind("\n"), text.find("\n", len(first))
    short = (end if end >= 0 else len(text)) - start <= longest
    return first[: max(start, 0)] if end != len(first) and short else first


def _whole_tail(text: str, chars: int, longest: int) -> str:
    """An end without the half of a line at its start; nothing where it is no more than that."""
    last = tail_lines(text, chars, _SPARE)
    at = len(text) - len(last)
    start, end = text.rfind("\n", 0, at), text.find("\n", at)
    end = end if end >= 0 else len(text)
    if start == at - 1:
        return last
    return text[end + 1 :] if end - start <= longest else last


def _between(
    body: Body, edges: Edges, room: int, counter: TokenCounter, wanted: LineSpan | None
) -> tuple[list[LineSpan], int]:
    """The lines that tell most, in their order, and their tokens, gaps between them included; whole lines
    only, but for the one that is wanted."""
    text, sizes, kept, used = body.text, body.salient.sizes, list[LineSpan](), 0
    start, end = text.find("\n", edges.head) + 1, text.rfind("\n", edges.head, edges.tail)
    if wanted is not None:
        start, end = min(start, wanted[0]), max(end, wanted[1])
    ranked = body.salient.ranked(start, end) if room and start < end else ()
    first = (wanted,) if wanted is not None and room else ()
    for place in chain(first, (x for x in ranked if x != wanted)):
        size = sizes.get(place)
        if size is None:
            size = sizes[place] = counter.text(text[place[0] : place[1]])
        if size + _GAP_TOKENS > room and place == wanted:
            place, size = _part(text, place, room - _GAP_TOKENS, counter)
        room -= size + _GAP_TOKENS
        if room < 0 or not size:
            break
        used += size
        kept.append(place)
    kept.sort()
    gaps = sum(after[0] > before[1] + 1 for before, after in pairwise(kept)) + (
        bool(kept) and kept[-1][1] < end
    )
    return kept, used + gaps * counter.text(_LEFT_OUT)


def _part(text: str, line: LineSpan, room: int, counter: TokenCounter) -> tuple[LineSpan, int]:
    """What fits of the line that says what went wrong, and its tokens: its beginning, if that says it, or
    else from the name of the file on, or only the words that do."""
    start, end = line
    whole = text[start:end]
    at = failure_at(whole)
    part, used = (start, start), 0
    for begin in (0, whole.rfind("/", 0, at) + 1, at):
        words = tail(whole, len(whole) - begin)
        begin, used = end - len(words), counter.text(words)
        if used > room:
            words, used = _beginning(words, len(words), room, counter)
        part = (begin, begin + len(words))
        if part[1] >= min(start + at + _TELLS, end):
            break
    return part, used


def quotation(
    message: Message,
    key: str,
    tokens: int,
    counter: TokenCounter,
    change: Callable[[Call], str] = lambda _: "",
) -> str:
    """What a message says, to be quoted in a record in about `tokens` tokens (0: all of it): no call to be
    made, so long arguments are cut to head and end. `change` tells an edit as what it changed; any other call
    is empty for it. The user's own words are not quoted: they stand beside the record."""
    match message:
        case Assistant():
            who, words = "assistant", message.text.strip()
            changes = [change(call) for call in message.calls]
            told = zip(message.calls, changes, strict=True)
            calls = [changed or f"{call.name} {_arguments(call)}" for call, changed in told]
            if tokens:
                words = _quoted(words, tokens // 2 if calls else tokens, counter, key)
                rooms = _rooms(calls, tokens - counter.text(words))
                made = zip(message.calls, changes, rooms, strict=True)
                calls = [
                    _quoted(changed, room, counter, key, "edit")
                    if changed
                    else _quoted_call(call, room, counter, key)
                    for call, changed, room in made
                ]
            text = "\n".join(filter(None, (words, *calls)))
        case Result():
            own = "\n".join(x.text for x in message.content if isinstance(x, Text) and is_typed(message, x))
            text, who = bare_output(message.text), "result"
            if tokens and own:  # the user's words stay whole
                others = _joined([x for x in message.content if not is_typed(message, x)])
                room = max(tokens - counter.text(own), _SHORT)
                text = f"{_quoted(bare_output(others), room, counter, key)}\n{own}"
            elif tokens:
                text = _quoted(text, tokens, counter, key)
        case _:
            return ""
    return f"{key} {who}: {text}" if text else ""


def _quoted_call(call: Call, tokens: int, counter: TokenCounter, key: str) -> str:
    """A call as it is written, its long arguments cut to head and end."""
    if call.raw is not None:
        return f"{call.name} {_quoted(call.raw, tokens, counter, key)}"
    given = {name: compact_json(value) for name, value in call.arguments.items()}
    rows = list[str]()
    for (name, written), room in zip(given.items(), _rooms([*given.values()], tokens), strict=True):
        value = call.arguments[name]
        if isinstance(value, str):  # cut as it reads, so that lines stay whole
            short = _quoted(value, room * len(value) // len(written), counter, key, "read")
            written = written if short == value else compact_json(short)
        else:
            written = _quoted(written, room, counter, key)
        rows.append(f"{compact_json(name)}:{written}")
    return f"{call.name} {{{','.join(rows)}}}"


def _rooms(texts: Sequence[str], tokens: int) -> list[int]:
    """Tokens for each of several texts: what is short (a path, a single line) stays, the others share the
    rest by length."""
    stays = {text for text in texts if len(text) <= 4 * _SHORT or (len(text) <= _LINE and "\\n" not in text)}
    short = sum(len(text) for text in texts if text in stays)
    long = sum(map(len, texts)) - short
    rest = max(tokens - short // 4, 0)
    return [len(text) if text in stays else max(rest * len(text) // long, 8) for text in texts]


def _quoted(text: str, tokens: int, counter: TokenCounter, key: str, kind: ToolKind = "other") -> str:
    most = max(_LARGE, _WIDE * tokens)
    if len(text) > 2 * most:  # of megabytes only the ends can be there
        text, key = f"{head(text, most)}\n{tail(text, most)}", ""
    # Half of a secret is not known for what it is: what is cut loses them first.
    return clip_text(redact(text)[0], tokens, Texts(counter), key, kind)


def _arguments(call: Call) -> str:
    return compact_json(call.arguments) if call.raw is None else call.raw


def _joined(parts: Sequence[AnyPart]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _with_note(parts: Sequence[AnyPart], short: str, key: str) -> Content:
    """Parts with a `short` form of their joined texts; what is no text (a picture) goes, and is said."""
    first = next((part for part in parts if isinstance(part, Text)), Text(""))
    named = _named(parts)
    said = "\n".join(filter(None, (short, f"[{named}, {key}]" if named else "")))
    return (msgspec.structs.replace(first, text=said),) if said else ()


def _named(parts: Sequence[AnyPart]) -> str:
    """What is no text, in words: `2 pictures, 1 other part`."""
    others = [part for part in parts if not isinstance(part, (Text, Call, Thinking))]
    pictures = sum(isinstance(part, Image) for part in others)
    counted = ((pictures, "picture"), (len(others) - pictures, "other part"))
    return ", ".join(f"{count} {what}{'s' * (count > 1)}" for count, what in counted if count)


def _around_typed(
    parts: Sequence[AnyPart], typed: Sequence[bool], tokens: int, texts: Texts, key: str
) -> Content:
    """The user's words first; what else stands around them shares the rest by size."""
    sizes = [texts.size(part.text) if isinstance(part, Text) else 0 for part in parts]
    own = sum(size for size, is_own in zip(sizes, typed, strict=True) if is_own)
    rest, around = max(tokens - own, 0), max(sum(sizes) - own, 1)
    kept: list[AnyPart] = []
    for part, size, is_own in zip(parts, sizes, typed, strict=True):
        if not isinstance(part, Text):
            text = f"[{_named([part])}, {key}]"
        elif is_own:
            text = clip_text(part.text, min(tokens, own) * size // max(own, 1), texts, key)
        elif size <= (room := rest * size // around) + WORTH + _MARK_TOKENS:
            text = part.text
        elif room >= _SHORT:
            text = clip_text(part.text, room, texts, key)
        else:
            text = _MARK.format(cut=size, key=key)
        kept.append(Text(text, part.origin if isinstance(part, Text) else "program"))
    return tuple(kept)


def _reply(message: Assistant, tokens: int, texts: Texts, key: str) -> Assistant:
    """What was said in what the calls leave of the room, then the calls, each as it was made. Thinking is
    dropped: a caller clips only replies whose thinking may be."""
    calls, text, room = message.calls, message.text, tokens
    for call in calls:
        room -= texts.size(_arguments(call))
    words = [clip_text(text, max(room, _SHORT), texts, key)] if text else []
    if others := _named(message.content):
        words.append(f"[{others}, {key}]")
    parts = (*([Text("\n".join(words))] if words else []), *calls)
    return msgspec.structs.replace(message, content=parts)
