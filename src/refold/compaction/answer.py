"""Answers of a summariser: what counts as a summary, what is refused, when it is no longer asked; and how a
summary is shown where nothing else goes with it."""

from __future__ import annotations

import re
from itertools import islice

from refold import entries as e
from refold.errors import BadAnswer
from refold.messages import Assistant
from refold.protocols import Steps, complete
from refold.session import Session
from refold.text.frames import quote

PATHS = 200
"""Files that are listed between two breaths."""
_EMPTY = {"", "null", "none", "undefined", "n/a", "{}", "[]", '""', "''"}
_REFUSALS = re.compile(
    r"^\W*(i['’]?m sorry|i am sorry|sorry,|i can(?:no|['’])t|i am unable|i['’]?m unable|i won['’]?t|"
    r"as an ai\b|抱歉|对不起|我无法|我不能)",
    re.IGNORECASE,
)


def text_of(reply: Assistant) -> str:
    """The text of a reply that was asked for a summary; `BadAnswer` where it is none."""
    if reply.stop == "length":
        raise BadAnswer("truncated", "the summary was cut off by the output limit")
    if reply.stop == "refusal":
        raise BadAnswer("refusal", "the model refused to summarise")
    if reply.stop in ("error", "aborted"):
        raise BadAnswer(reply.stop, reply.error or f"the summary request ended with {reply.stop}")
    text = reply.text.strip()
    if reply.calls and not text:
        raise BadAnswer("tool_call", "the model called a tool instead of summarising")
    if reply.calls or reply.stop == "tool_use":
        raise BadAnswer("tool_call", "the model went on with the task instead of summarising")
    return text


def plain(text: str) -> str:
    """A summary in plain text; `<summary>` tags and an `<analysis>` in front of it are taken off."""
    text = strip_tags(text)
    if text.strip().lower() in _EMPTY:
        raise BadAnswer("empty", "the model returned no summary")
    if len(text) < 400 and _REFUSALS.match(text):
        raise BadAnswer("refusal", "the model refused to summarise")
    return text


def strip_tags(text: str) -> str:
    """What is inside `<summary>` tags, or the text without its `<analysis>` part."""
    inside = _between(text, "<summary>", "</summary>")
    if inside is not None:
        return inside.strip()
    start, end = text.find("<analysis>"), text.rfind("</analysis>")
    if start != -1:
        text = text[:start] + (text[end + len("</analysis>") :] if end > start else "")
    return text.strip()


def _between(text: str, start: str, end: str) -> str | None:
    first, last = text.find(start), text.rfind(end)
    if first == -1:
        return None
    return text[first + len(start) : last if last > first else len(text)]


FAILURES = 3
REST = 300.0
"""Seconds of rest before the model is tried again."""
NOT_ITS_FAULT = ("stale", "cancelled", "aborted", "nothing_shrinks")
"""Codes of attempts that came to nothing whatever the model answered."""


def rests(session: Session, now: float) -> bool:
    """The breaker, read off the log: after three failures in a row, the newest of them a short while ago, a
    model is left alone."""
    failures = (f for f in reversed(session.annotations(e.Failure)) if f.code not in NOT_ITS_FAULT)
    recent = list(islice(failures, FAILURES))[::-1]
    if len(recent) < FAILURES or not 0 <= now - recent[-1].time < REST:
        return False  # a clock that was set back does not prolong the rest
    successes = [fold for fold in session.annotations(e.Fold) if fold.requests]
    return not successes or successes[-1].time < recent[0].time


FRAME = (
    "The beginning of this conversation was folded into the summary below. It is a record of what was "
    "said and done, not a new request.\n\n<summary>\n{summary}\n</summary>"
)
FRAME_TOKENS = 24
"""Of a list's tags, at most."""
OWN_TAGS = ("summary", "read-files", "modified-files", "created-files", "deleted-files")


def framed_summary(summary: str, files: e.Files) -> str:
    """The text that stands for what was folded."""
    return complete(framing(summary, files))


def framing(summary: str, files: e.Files) -> Steps[str]:
    """`framed_summary` in pieces."""
    return FRAME.format(summary=quote(summary, *OWN_TAGS) + (yield from listing(files)))


def file_lists(files: e.Files) -> str:
    """The lists that follow a summary; files that were modified are not listed as read."""
    return complete(listing(files))


def listing(files: e.Files) -> Steps[str]:
    """`file_lists` in pieces."""
    blocks = ""
    for name in ("read", "modified", "created", "deleted"):
        rows, paths = list[str](), getattr(files, name)
        for number, path in enumerate(paths, 1):
            rows.append(framed_path(path))
            if number % PATHS == 0:
                yield
        blocks += f"\n\n<{name}-files>\n" + "\n".join(rows) + f"\n</{name}-files>" if rows else ""
    return blocks


def framed_path(path: str) -> str:
    """A path on one line that cannot close the list it stands in."""
    return quote(path, *OWN_TAGS).replace("\n", " ")
