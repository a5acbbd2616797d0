"""Is a text that stands for others' words sound? One check, before a fold is appended (R17).

A fold puts text of tools, models and other people into the conversation, in the role of the user or of the
system. It may do so between frames: lines that are an opening or a closing tag of ours and nothing else. What
stands in a frame, and beside it, must not be able to close that frame, to open another one, or to pose as a
turn of the conversation, as the most careless reader would see it. That is what `defuse` takes out; so a text
is sound if its frames are in order and there is nothing left to defuse between them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from refold.text.frames import TAG, defuse, visible
from refold.text.truncate import one_line

LISTS = ("read-files", "modified-files", "created-files", "deleted-files")
ACTIONS = ("files_modified", "files_created", "files_deleted", "files_viewed", "terminal_commands")
TURN = ("user", "agent_actions", "agent_response")
INSIDE: dict[str, tuple[str, ...]] = {
    "supervisor": ("abridged_history", "summary", *TURN),
    "abridged_history": TURN,
    "agent_actions": ACTIONS,
    "summary": LISTS,
}
"""Which frames stand in which. In all others, and as other tags, there is nothing but text."""
MANY = (*TURN, *ACTIONS)
HEADINGS = ("=== ACCUMULATED MEMORY SUMMARIES ===", "=== CURRENT WORKSPACE CONTEXT ===")
"""First lines of our own that would be a speaker's in somebody else's text."""
_NAMES = "|".join((TAG, "summary", "supervisor", "abridged_history", *LISTS, *TURN, *ACTIONS))
_TAG = re.compile(rf'<(/?)({_NAMES})((?: [a-z_]{{1,20}}="[^"<>\n]{{0,300}}"){{0,8}})>')
_EMPTY = ("<agent_was_interrupted/>", "<agent_continues/>")


def _outer(text: str) -> tuple[str, ...]:
    """The frames that stand in no other: of a node, of a summary alone, of a record or an outline."""
    if text.startswith("<supervisor>"):
        return ("supervisor",)
    alone = text.endswith("\n</summary>") and "<summary>\n" in text
    return ("summary",) if alone else (TAG, *TURN)


@lru_cache(maxsize=2)  # a fold is judged when it is made, and again when it is appended
def forged(text: str) -> str:
    """Why a text is not sound, in a few words; empty where it is."""
    if visible(text) != text:
        return "it holds characters that cannot be seen"
    outer, pins = _outer(text), ' kind="pin"' in text
    if outer == ("supervisor",):  # the words of its template are the user's, and may stand beside tags
        text = _TAG.sub(r"\n\g<0>\n", text)
    around: list[str] = []
    opened: set[str] = set()
    stretches: list[tuple[tuple[str, ...], list[str]]] = [((), [])]
    for number, line in enumerate(text.split("\n")):
        tag = _TAG.fullmatch(line) if line[:1] == "<" else None
        if tag and tag[1] and tag[2] in around:
            if around.pop() != tag[2]:
                return f"it closes a frame around its own: {tag[0]}"
        elif tag and not tag[1] and tag[2] in (INSIDE.get(around[-1], ()) if around else outer):
            if tag[2] in opened and tag[2] not in MANY and not pins:
                return f"it opens a frame twice: {one_line(tag[0], 60)}"
            opened.add(tag[2])
            around.append(tag[2])
        else:
            ours = line in _EMPTY or (number == 0 and line in HEADINGS)
            stretches[-1][1].append("" if ours else line)
            continue
        stretches.append((tuple(around), []))
    if around:
        return f"it leaves a frame open: {around[-1]}"
    # Beside an outline stand the words of a template: what they are called is no tag there.
    beside = outer if len(outer) == 1 else ()
    spoken = (_spoken("\n".join(lines), frames or beside) for frames, lines in stretches)
    return next(filter(None, spoken), "")


def _spoken(text: str, frames: tuple[str, ...]) -> str:
    clean = defuse(text, *frames)
    if clean == text:
        return ""
    at = next((i for i, (a, b) in enumerate(zip(clean, text, strict=False)) if a != b), 0)
    return f"it could close its frame or speak as somebody else: {one_line(text[at : at + 60], 60)!r}"
