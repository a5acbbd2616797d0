"""One fold for a reader: before and after, what was checked and lost, and how to get it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from shlex import quote

from refold import entries as e
from refold import tokens as counters
from refold.compaction import ledger
from refold.compaction.details import Check, RefoldDetails
from refold.compare.report.charts import short
from refold.compare.report.html import Child, Markup, el, join
from refold.compare.run import Cell
from refold.session import Session, redacted
from refold.session.edits import said_by
from refold.text.truncate import head, middle

FIRST, LAST = 6, 8
"""Entries of the folded stretch that are listed: so many from its start and its end."""
SHOWN = 3
"""Folds per cell, newest first."""
LINE = 110


def cell_folds(cell: Cell, room: int) -> Markup:
    """The folds of a cell; `room` is how many characters of a record are shown."""
    if cell.done is None:
        return el("p", cell.error or "failed", cls="bad")
    folds = cell.done.all_folds
    if not folds:
        return el("p", "Nothing was folded. ", cell.error or "")
    shown = folds[-SHOWN:][::-1]
    more = len(folds) - len(shown)
    return join(
        (
            *(fold(cell, one, room) for one in shown),
            el("p", f"… and {more} earlier folds.", cls="quiet") if more else None,
        )
    )


def fold(cell: Cell, one: e.Fold, room: int) -> Markup:
    assert cell.done is not None
    session = cell.done.session
    freed = 1 - one.tokens_after / one.tokens_before if one.tokens_before else 0
    return el(
        "article",
        el(
            "h4",
            f"{one.tokens_before:,} → {one.tokens_after:,} tokens",
            el("span", f"−{freed:.0%} · {one.rung} · by {one.author or 'unknown'}", cls="quiet"),
        ),
        el("div", before(session, one), after(session, one, room), cls="pair"),
        facts(cell, one),
        cls="fold",
    )


def before(session: Session, one: e.Fold) -> Markup:
    folded = _folded(session, one)
    kept = {row.id: row for row in rows_of(session, one)}
    rows = folded if len(folded) <= FIRST + LAST else [*folded[:FIRST], *folded[-LAST:]]
    items: list[Child] = [_entry(entry, kept.get(entry.id)) for entry in rows]
    if len(rows) < len(folded):
        gap = el("li", f"… {len(folded) - len(rows):,} entries between …", cls="gap")
        items.insert(FIRST, gap)
    return el("section", el("h5", f"Before: {len(folded):,} entries"), el("ol", items, cls="entries"))


def _folded(session: Session, one: e.Fold) -> list[e.AnyPathEntry]:
    found: dict[int, e.AnyPathEntry] = {}
    for edit in one.edits:
        first, last = session.position(edit.first), session.position(edit.last)
        if first is not None and last is not None:
            for position in range(first, last + 1):
                if said_by(session.path[position]) is not None:
                    found[position] = session.path[position]
    return [found[position] for position in sorted(found)]


def _entry(entry: e.AnyPathEntry, lost: e.Lost | None) -> Markup:
    message = said_by(entry)
    assert message is not None
    line = head(" ".join(head(redacted.whole(message)[:20_000], 4 * LINE).split()), LINE)
    return el(
        "li",
        el("b", message.role, cls=f"role {message.role}"),
        el("span", line or "(no text)"),
        el("code", e.key(entry.id)),
        el("i", short(lost.size)) if lost else None,
    )


def after(session: Session, one: e.Fold, room: int) -> Markup:
    """Summaries in full length where there is room; of masks and lines the first few."""
    known = redacted.Known(_folded(session, one))
    texts: dict[str, list[str]] = {}
    for edit in one.edits:
        texts.setdefault(edit.kind, []).extend(known.text(redacted.whole(message)) for message in edit.put)
    whole = [text for kind, found in texts.items() if kind == "summary" for text in found]
    small = [(kind, found) for kind, found in texts.items() if kind != "summary"]
    parts: list[Child] = [
        el("pre", middle(text, room, "\n\n…[{cut} characters left out here]…\n\n")) for text in whole
    ]
    for kind, found in small:
        listed = "\n".join(head(text, 300) for text in found[:4])
        parts.append(el("p", f"{len(found):,} × {kind}", cls="quiet"))
        parts.append(el("pre", middle(listed, room)) if listed else None)
    return el("section", el("h5", "After: what the model sees instead"), parts or el("p", "(nothing)"))


def rows_of(session: Session, one: e.Fold) -> tuple[e.Lost, ...]:
    return ledger.rows(session, one, counters.get())


def facts(cell: Cell, one: e.Fold) -> Markup:
    assert cell.done is not None
    lost = rows_of(cell.done.session, one)
    rows = (
        ("Verified", _verified(one)),
        ("Lost", _lost(one, lost)),
        ("Recall", _recall(cell, lost)),
    )
    return el("dl", [(el("dt", name), el("dd", value)) for name, value in rows], cls="facts")


def _verified(one: e.Fold) -> Child:
    report = Check.of(one)
    if report and report.unverified:
        listed = ", ".join(head(claim, 80) for claim in report.unverified[:8])
        wrong = f"{len(report.unverified)} of {report.claims} claims"
        return f"{wrong} do not occur in what was folded: {listed}"
    if report:
        return f"all {report.claims} names, paths, numbers and quotations occur in what was folded"
    if one.requests == 0:
        return "no model wrote anything here: what stands there was taken or computed from the log"
    return "this design does not check its summaries"


def _lost(one: e.Fold, lost: Sequence[e.Lost]) -> Child:
    kinds = Counter(row.kind for row in lost)
    listed = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    size = sum(row.size for row in lost)
    out: list[Child] = [f"{size:,} tokens are no longer verbatim: {listed or 'none'}"]
    noted = RefoldDetails.of(one)
    left = len(noted.words_left_out) + noted.words_left_out_before
    if left:
        out.append(el("span", f" Typed words not all in the record: {left} messages", cls="bad"))
    return out


def _recall(cell: Cell, lost: Sequence[e.Lost]) -> Child:
    largest = sorted(lost, key=lambda row: -row.size)[:3]
    if not largest:
        return "everything is still in view"
    keys = ",".join(row.key for row in largest)
    return (
        "the log keeps everything, e.g. the largest: ",
        el("code", f"refold recall {quote(cell.file)} --keys {keys}"),
        "; an agent calls ",
        el("code", f'recall_conversation(keys=["{largest[0].key}"])'),
    )
