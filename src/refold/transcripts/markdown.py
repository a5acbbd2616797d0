"""A session as Markdown for reading: a heading per turn, calls and results in fenced blocks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from refold import messages as m
from refold.messages import arguments_json, compact_json
from refold.session import Item, redacted
from refold.text.frames import visible
from refold.text.plural import counted
from refold.text.redact import redact
from refold.text.truncate import one_line
from refold.tokens import images

_TICKS = re.compile(r"`{3,}")
_HEADING = re.compile(r"^(#{1,6} )", re.MULTILINE)
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_FENCE = re.compile(r"(`{3,}(?!.*`)|~{3,})")
_INDENTED_FENCE = re.compile(r"[ \t>*+.)\d-]+(?:`{3}|~{3})")
_TITLES = {"assistant": "Assistant", "system": "System", "bash": "User's command"}


def write_markdown(items: Sequence[Item], title: str) -> bytes:
    blocks = [f"# {_line(title)}"]
    turn = 0
    for item in items:
        message = item.message
        if item.fold is not None:
            blocks.append(f"## Folded\n\n*{counted(len(item.entries), 'entry')} folded here.*")
        elif isinstance(message, m.User):
            turn += 1
            blocks.append(f"## Turn {turn}: user")
        elif not isinstance(message, m.Result):
            blocks.append(f"### {_TITLES[message.role]}")
        blocks.extend(_body(message))
    return ("\n\n".join(block for block in blocks if block) + "\n").encode("utf-8")


def _body(message: m.Message) -> list[str]:
    message = redacted.message(message)
    if isinstance(message, m.Result):
        return [_result(message)]
    if isinstance(message, m.Bash):
        return [_fenced(message.text, "console")]
    return [_part(part) for part in message.parts]


def _part(part: m.AnyPart) -> str:
    match part:
        case m.Text():
            return _prose(part.text)
        case m.Thinking():
            return "\n".join(f"> {_without_html(line)}" for line in _clean(part.text).splitlines())
        case m.Call():
            return f"**{_line(part.name)}**\n\n" + _fenced(arguments_json(part), "json")
        case m.Image():
            found = images.size(part)
            pixels = f", {found[0]} × {found[1]}" if found else ""
            return f"*{_line(f'[{part.media_type}{pixels}]')}*"
        case m.Opaque():
            return _fenced(compact_json(part.raw), "json")


def _result(message: m.Result) -> str:
    heading = "Error" if message.is_error else "Result"
    title = f"*{heading}" + (f" of {_line(message.name)}" if message.name else "") + ":*"
    shown = [_fenced(message.text)] if message.text else []
    shown += [_part(part) for part in message.parts if not isinstance(part, m.Text)]
    return "\n\n".join([title, *(shown or ["(empty)"])])


def _fenced(text: str, language: str = "") -> str:
    """A fenced block that its text cannot close."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{_clean(text).rstrip()}\n{fence}"


def _prose(text: str) -> str:
    """Text with headings one level lower, without HTML outside fenced code."""
    lines = _HEADING.sub(r"###\1", _clean(text)).strip().splitlines()
    # Fences inside of lists and quotations end where only a whole parser knows: then nothing is fenced.
    fences = not any(map(_INDENTED_FENCE.match, lines))
    written: list[str] = []
    fence = ""
    for line in lines:
        mark = _FENCE.match(line) if fences else None
        if fence:
            closes = mark and mark[1].startswith(fence) and not line.strip(fence[0] + " \t")
            fence = "" if closes else fence
        elif mark:
            fence = mark[1]
        else:
            line = _without_html(line)
        written.append(line)
    return "\n".join([*written, fence] if fence else written)


def _without_html(text: str) -> str:
    return _TAG.sub("&lt;", text)


def _line(text: str) -> str:
    return _without_html(one_line(_clean(text), 200))


def _clean(text: str) -> str:
    """Without secrets and terminal control characters."""
    return visible(redact(text)[0])
