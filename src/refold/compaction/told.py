"""What entries tell whoever summarises them (R17).

Notes of programs and summaries of branches are shown to the model in the user's role, but nobody may take
them for the user's words: a file that was read again would become a request.
"""

from __future__ import annotations

from refold import entries as e
from refold.messages import Assistant, Message, Result, Text, User
from refold.session.edits import BRANCH_NOTE, said_by
from refold.session.items import Item

NOTE = "note"


def told_by(entry: e.Entry) -> Message | None:
    """What an entry says, as who says it: a note counts as output of a program, a branch summary as the
    agent's own words."""
    match entry:
        case e.Note(content=content, kind=kind):
            return Result("", content, kind or NOTE)
        case e.BranchSummary(summary=summary) if summary:
            return Assistant((Text(f"{BRANCH_NOTE}\n\n{summary}"),))
        case _:
            return said_by(entry)


def told_as(item: Item, entry: e.Entry) -> Message:
    """The same for an item of the view: what a fold put there are the agent's own words."""
    if item.fold is not None:
        return Assistant(item.message.parts) if isinstance(item.message, User) else item.message
    return told_by(entry) or item.message
