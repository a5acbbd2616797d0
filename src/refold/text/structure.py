"""Is a text that stands for others' words sound? One check, before a fold is appended (R17).

A fold puts text of tools, models and other people into the conversation, in the role of the user or of the
system. It may do so between frames: lines that are an opening or a closing tag of ours and nothing else. What
stands in a frame, and beside it, must not be able to close that frame, to open another one, or to pose as a
turn of the conversation, as the most careless reader would see it. That is what `defuse` takes out; so a text
is sound if its frames are in order and there is nothing left to defuse between them.
"""

from __future__ import annotations

import re

from refold.text.frames import TAG, defuse, visible
from refold.text.truncate import one_line

LISTS = ("read-files", "modified-files", "created-files", "deleted-files")
ACTIONS = ("files_modified", "files_created", "files_deleted", "files_viewed", "terminal_commands")
TURN = ("user", "agent_actions", "agent_response")
INSIDE: dict[str, tuple[str, ...]] = {
    "": (TAG, "summary", "supervisor", "branch-summary", "abridged_history", *LISTS, *TURN),
    "supervisor": ("abridged_history", "summary"),
    "abridged_history": TURN,
    "agent_actions": ACTIONS,
    "summary": LISTS,
}
"""Which frames stand in which. In all others, and as other tags, there is nothing but text."""
MANY = (*TURN, *ACTIONS)
HEADINGS = ("=== ACCUMULATED MEMORY SUMMARIES ===", "=== CURRENT WORKSPACE CONTEXT ===")
"""First lines of our own that would be a speaker's in somebody else's text."""
_LINE = re.compile(r'<(/?)([a-z_-]{2,20})((?: [a-z_]{1,20}="[^"<>\n]{0,300}"){0,8})>')
_EMPTY = ("<agent_was_interrupted/>", "<agent_continues/>")


def forged(text: str) -> str:
    """Why a text is not sound, in a few words; empty where it is."""
    if visible(text) != text:
        return "it holds characters that cannot be seen"
    around: list[str] = []
    opened: set[str] = set()
    stretches: list[tuple[tuple[str, ...], list[str]]] = [((), [])]
    for number, line in enumerate(text.split("\n")):
        tag = _LINE.fullmatch(line) if line[:1] == "<" else None
        if tag and tag[1] and tag[2] in around:
            if around.pop() != tag[2]:
                return f"it closes a frame around its own: {tag[0]}"
        elif tag and not tag[1] and tag[2] in INSIDE.get(around[-1] if around else "", ()):
            if tag[2] in opened and tag[2] not in MANY and ' kind="pin"' not in text:
                return f"it opens a frame twice: {one_line(tag[0], 60)}"
            opened.add(tag[2])
            around.append(tag[2])
        else:
            ours = line in _EMPTY if around else number == 0 and line in HEADINGS
            stretches[-1][1].append("" if ours else line)
            continue
        stretches.append((tuple(around), []))
    if around:
        return f"it leaves a frame open: {around[-1]}"
    for frames, lines in stretches:
        if why := _spoken("\n".join(lines), frames):
            return why
    return ""


def _spoken(text: str, frames: tuple[str, ...]) -> str:
    clean = defuse(text, *frames)
    if clean == text:
        return ""
    at = next((i for i, (a, b) in enumerate(zip(clean, text, strict=False)) if a != b), 0)
    return f"it could close its frame or speak as somebody else: {one_line(text[at : at + 60], 60)!r}"
