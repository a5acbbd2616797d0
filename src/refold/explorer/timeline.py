"""One session for the page: points in time, what the model saw at each, and what was cut.

A *point* is a visible path entry: a message, a fold, an undo, a change of the model. Between two marks
(folds, undos, redos) the view only grows, so the page makes one request per mark and moves through time by
itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from refold import entries as e
from refold.compaction.details import RefoldDetails, VerificationReport, rows
from refold.compare.forms import FoldRecord, copied_messages, record_of_fold, record_of_stretch, stretch_forms
from refold.compare.measures import subject
from refold.compare.money import prices_of
from refold.compare.report.clip_parts import clip_pieces
from refold.compare.report.html import page_safe, redacted_text
from refold.costs import break_even, cold_share, known
from refold.errors import EntryNotFound, UsageError
from refold.messages import Call, Message, Result, User
from refold.registry.engine import Engine
from refold.session import Session, redacted
from refold.session.edits import Stretch, accepted, active_folds, outermost, said_by, undone_folds
from refold.session.history import last_model
from refold.session.projection import FOLD_MARKS
from refold.text.lenient_json import JsonObject
from refold.text.plural import counted
from refold.text.truncate import one_line

LINE_CHARS = 200
"""Characters of a message in a list."""
SCANNED_CHARS = 2_000
"""Characters that are searched for secrets before a message is cut."""
LEDGER = 500
"""Number of ledger rows shown."""
EPOCHS = 16
"""Number of marks whose views are kept."""


def list_line(text: str) -> str:
    """A text for a list: one line, without secrets."""
    return one_line(redacted_text(text[:SCANNED_CHARS]), LINE_CHARS)


class Timeline:
    """A session up to its leaf; follows the session as it grows."""

    def __init__(self, session: Session, engine: Engine) -> None:
        self.session, self.engine = session, engine
        self.counter = engine.counter
        self._begin()

    def _begin(self) -> None:
        self._epoch, self._seen, self._turn = self.session.epoch, 0, 0
        self._calls: dict[str, Call] = {}
        self.points: list[int] = []
        """Positions on the path."""
        self.rows: list[JsonObject] = []
        self._views: OrderedDict[int, list[JsonObject]] = OrderedDict()
        self._known: redacted.KnownSecrets | None = None

    def follow(self) -> None:
        """Takes in appended entries; rebuilds everything if the path changed."""
        if self._epoch != self.session.epoch:
            self._begin()
        path = self.session.path
        for position in range(self._seen, len(path)):
            if (row := self._row(path[position])) is not None:
                self.points.append(position)
                self.rows.append(row)
        if self._seen < len(path):
            self._seen, self._known = len(path), None

    def _row(self, entry: e.AnyPathEntry) -> JsonObject | None:
        message = said_by(entry)
        beside = [self._branch(id) for id in self.session.children(entry.parent) if id != entry.id]
        if message is None and isinstance(entry, (e.Other, e.Unknown)) and not beside:
            return None
        row: JsonObject = {"id": entry.id, "kind": type(entry).__name__.lower(), "time": entry.time}
        row["number"] = self.session.position(entry.id)  # as records and marks name it
        if message is not None:
            self._turn += isinstance(entry, e.MessageEntry) and isinstance(message, User)
            self._calls |= {call.id: call for call in message.calls}
            row |= {"role": message.role, "key": e.key(entry.id), "about": self._about(message)}
            row["tokens"] = self.session.cached_count(entry.id, message, self.counter)
        else:
            row["about"] = list_line(_mark_in_words(entry))
        row["turn"] = self._turn
        return {**row, "branches": beside} if beside else row

    def _branch(self, id: str) -> JsonObject:
        """Another branch from the same place: its newest end, and its number of entries."""
        length, end = 1, id
        while later := self.session.children(end):
            length, end = length + 1, later[-1]
        return {"leaf": end, "entries": length}

    def _about(self, message: Message) -> str:
        """A message in a line: its words, and the calls that it makes or answers."""
        if isinstance(message, Result):
            call = self._calls.get(message.call_id)
            return list_line(
                f"{_in_words(call) if call else message.name or 'a tool'}: {message.text[:SCANNED_CHARS]}"
            )
        calls = [_in_words(call) for call in message.calls[:3]]
        more = [f"and {len(message.calls) - 3} more calls"] if len(message.calls) > 3 else []
        return list_line(
            " · ".join(filter(None, (message.text[:SCANNED_CHARS], *calls, *more))) or "(no text)"
        )

    # ── the whole ───────────────────────────────────────────────────────────────────────────────

    def shown(self, start: int = 0, last: str = "") -> JsonObject:
        """All points, or those from `start` on where the one before it is still called `last`."""
        self.follow()
        if start > len(self.rows) or (start and self.rows[start - 1]["id"] != last):
            start = 0
        return {
            "start": start,
            "points": self.rows[start:],
            "folds": self.folds(),
            "pins": list(self.session.pins),
            "labels": {id: redacted_text(text) for id, text in self.session.labels.items()},
            "leaf": self.session.leaf,
            "problems": [redacted_text(f"{one.where}: {one.text}") for one in self.session.problems[:20]],
            "tokens": self.engine.view(self.session).tokens,
        }

    def folds(self) -> list[JsonObject]:
        path = self.session.path
        active = {fold.id for fold in active_folds(path)}
        gone = [fold.id for fold in undone_folds(path)]
        return [
            {
                "id": fold.id,
                "at": self._point_of(fold.id),
                "active": fold.id in active,
                "undone": fold.id in gone,
                "preset": redacted_text(fold.preset),
                "strategy": redacted_text(fold.strategy),
                "reason": redacted_text(fold.reason.partition(": ")[2] or fold.reason),
                "before": fold.tokens_before,
                "after": fold.tokens_after,
                "author": redacted_text(fold.author),
                "foreign": _is_foreign(fold),
                "requests": fold.requests,
                "dollars": _cost(fold),
                "check": _checked(fold),
            }
            for fold in path
            if isinstance(fold, e.Fold)
        ]

    def _point(self, position: int) -> int:
        """The point at a position of the path, or the next one."""
        return bisect_left(self.points, position)

    def _point_of(self, id: str) -> int:
        return self._point(self.session.position(id) or 0)

    def _entry(self, point: int) -> e.AnyPathEntry:
        self.follow()
        if not 0 <= point < len(self.points):
            raise UsageError(f"there is no point {point}: the session has {len(self.points)}")
        return self.session.path[self.points[point]]

    # ── what the model saw ──────────────────────────────────────────────────────────────────────

    def view(self, point: int) -> JsonObject:
        """What stands for stretches of the path once the last mark up to this point was made."""
        self._entry(point)
        kinds = tuple(kind.__name__.lower() for kind in FOLD_MARKS)
        marks = (at for at in range(point, -1, -1) if self.rows[at]["kind"] in kinds)
        mark = next(marks, -1)
        if mark not in self._views:
            while len(self._views) >= EPOCHS:
                self._views.popitem(last=False)
            self._views[mark] = [self._stretch(one) for one in self._shown_at(mark)]
        return {"mark": mark, "stretches": self._views[mark]}

    def _shown_at(self, mark: int) -> list[Stretch]:
        if mark < 0:
            return []
        path = self.session.path[: self.points[mark] + 1]
        folds = accepted(self.engine.preset.accepts, active_folds(path))
        return outermost(folds, self.session.position)

    def _stretch(self, stretch: Stretch) -> JsonObject:
        first, last = self._point(stretch.first), self._point(stretch.last + 1) - 1
        record = record_of_stretch(stretch)
        forms = stretch_forms(self.session, stretch, record)
        shown_for = copied_messages(self.session, stretch, record)
        return {
            "first": first,
            "last": last,
            "fold": stretch.fold.id,
            "kind": redacted_text(stretch.edit.kind),
            "forms": "".join(forms.get(self.rows[at]["id"], "-")[0] for at in range(first, last + 1)),
            "put": [
                {
                    "role": message.role,
                    "tokens": self.counter.message(message),
                    "about": list_line(message.text or self._about(message)),
                    "own": self._point_of(shown_for[place]) if place in shown_for else None,
                }
                for place, message in enumerate(stretch.edit.put)
            ],
        }

    # ── one message, one fold ───────────────────────────────────────────────────────────────────

    def message(self, point: int, at: int) -> JsonObject:
        """A message as it was said, beside what stood for it at a point: texts with what was cut marked."""
        entry = self._entry(point)
        message = said_by(entry)
        if message is None:
            raise UsageError(f"point {point} is no message")
        original = page_safe(redacted.message_text(message))
        mark = self.view(at)["mark"]
        position = self.points[point]
        stretch = next((s for s in self._shown_at(mark) if s.first <= position <= s.last), None)
        told = {
            **self.rows[point],
            "text": original,
            "form": "whole",
            "pinned": entry.id in self.session.pins,
        }
        if isinstance(entry, e.MessageEntry):
            told |= {"model": redacted_text(entry.model or ""), "usage": _usage(entry)}
        if stretch is None:
            return told
        record = record_of_stretch(stretch)
        told["form"] = stretch_forms(self.session, stretch, record).get(entry.id, "gone")
        told["fold"] = stretch.fold.id
        shown_for = copied_messages(self.session, stretch, record)
        own = next((place for place, id in shown_for.items() if id == entry.id), None)
        copy = record.copy_of(message) if own is None else own
        if copy is not None:
            told |= _beside(
                original, page_safe(self._secrets().text(redacted.message_text(record.messages[copy])))
            )
        elif told["form"] in ("whole", "lines"):
            told["lines"] = self._lines(stretch.fold, entry.id, record, message)
        return told

    def _secrets(self) -> redacted.KnownSecrets:
        """The secrets of the conversation: a clip may show a part of one."""
        if self._known is None:
            self._known = redacted.KnownSecrets(filter(None, map(said_by, self.session.path)))
        return self._known

    def _lines(self, fold: e.Fold, id: str, record: FoldRecord, message: Message) -> list[str]:
        """The lines of a record that tell of an entry, as the fold noted them, or by their words."""
        written, noted = record_of_fold(fold).split("\n"), RefoldDetails.of(fold).sources or []
        found = [n for one in noted if id in one.ids for n in range(one.first, one.last + 1)]
        if not found:
            traces = tuple(record.traces(message))
            found = [n for n, line in enumerate(written) if any(trace in line for trace in traces)]
        return [page_safe(self._secrets().text(written[n])) for n in found[:20] if n < len(written)]

    def fold(self, id: str) -> JsonObject:
        """A fold in full: why, what it cost, its check, its ledger, its record line by line."""
        self.follow()
        fold = self.session[id]
        about = next((one for one in self.folds() if one["id"] == id), None)
        if not isinstance(fold, e.Fold) or about is None:
            raise EntryNotFound(id)
        lost = rows(self.session, fold, self.counter)
        places = {row["id"]: at for at, row in enumerate(self.rows)}
        return {
            **about,
            "money": self._money(fold),
            "lost": [
                {"key": row.key, "tokens": row.size, "point": at, "about": self.rows[at]["about"]}
                for row in lost[:LEDGER]
                if (at := places.get(row.id)) is not None
            ],
            "lost_in_all": len(lost),
            "tokens_lost": sum(row.size for row in lost),
            "lines": list(self._sourced(fold, page_safe(self._secrets().text(record_of_fold(fold))), places)),
        }

    def _sourced(self, fold: e.Fold, record: str, places: dict[str, int]) -> Iterator[JsonObject]:
        """The lines of a record, each with the points it comes from."""
        origins: dict[int, list[int]] = {}
        for one in RefoldDetails.of(fold).sources or ():
            points = [places[id] for id in one.ids if id in places]
            origins |= dict.fromkeys(range(one.first, one.last + 1), points[:8])
        for number, line in enumerate(record.split("\n") if record else ()):
            yield {"text": line, "from": origins.get(number, [])}

    def _money(self, fold: e.Fold) -> str:
        """What the fold does to later requests, by list prices; empty where it does not say what it left."""
        model = last_model(self.session)
        about = known(model) if model else None
        if about is None or about.prices is None or not fold.tokens_after:
            return ""
        before = takewhile(lambda entry: entry.id != fold.id, self.session.entries)
        replies = (entry for entry in before if isinstance(entry, e.MessageEntry))
        requests = [entry.time for entry in replies if entry.message.role == "assistant"]
        even = break_even(
            fold.tokens_before,
            fold.tokens_after,
            prices_of(self.session, model).prices,
            warm=not cold_share([*requests[-1:], fold.time]),
            cold=cold_share(requests),
        )
        once = "costs" if even.now > 0 else "saves"
        later = f"${even.per_turn:.4f}" if even.per_turn > 0 else "nothing"
        paid = f"; it has paid after {counted(even.turns, 'request')}" if even.turns else ""
        return (
            f"At list prices of {about.name}: {once} ${abs(even.now):.4f} in cache at once, "
            f"saves {later} with each later request{paid}."
        )


def _in_words(call: Call) -> str:
    return f"{call.name}({one_line(', '.join(subject(call)[:2]), 120)})"


def _mark_in_words(entry: e.AnyPathEntry) -> str:
    match entry:
        case e.Fold():
            return f"{entry.tokens_before:,} → {entry.tokens_after or '?'} tokens, {entry.preset}"
        case e.Undo(fold=fold) | e.Redo(fold=fold):
            return f"of fold {fold}"
        case e.ModelChange():
            return " ".join(filter(None, (entry.model, entry.thinking)))
        case e.Hole():
            return entry.why
        case _:
            return ""


def _usage(entry: e.MessageEntry) -> JsonObject | None:
    usage = entry.usage
    if usage is None:
        return None
    return {"prompt": usage.prompt, "output": usage.output, "cache_read": usage.cache_read}


def _is_foreign(fold: e.Fold) -> bool:
    """Made by another program: what it asked, checked and took out of the view is not in the log."""
    return fold.author.startswith("import:")


def _cost(fold: e.Fold) -> float | None:
    """Dollars for the requests that wrote it, by list prices; None: not known."""
    if not fold.requests and not _is_foreign(fold):
        return 0.0
    about = known(fold.author) if fold.author else None
    return about.prices.cost(fold.usage) if about and about.prices and fold.usage else None


def _checked(fold: e.Fold) -> JsonObject | None:
    report = VerificationReport.of(fold)
    if report is None:
        return None
    return {"claims": report.claims, "unverified": [redacted_text(one) for one in report.unverified[:50]]}


def _beside(source: str, clip: str) -> JsonObject:
    """Both texts in pieces: [text, 1 where the source was cut], [text, 1 where the clip has a mark]."""
    before: list[list[Any]] = []
    after: list[list[Any]] = []
    at = 0
    for piece in clip_pieces(source, clip):
        if isinstance(piece, str):
            after.append([piece, 1])
            continue
        first, last = piece
        if first > at:
            before.append([source[at:first], 1])
        before.append([source[first:last], 0])
        after.append([source[first:last], 0])
        at = last
    if at < len(source):
        before.append([source[at:], 1])
    return {"before": before, "after": after}
