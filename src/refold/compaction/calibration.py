"""What the provider counts for a session, learnt from the usage in its log (R12).

Every reply with a usage is a pair: our count of the view it answered, and the provider's. Pairs are kept per
model and grow with the view; a turn costs what is new in it. A fold, an undo or a moved leaf changes the
view, so only replies after the newest of them are read from the log; what was learnt before stays learnt, and
each fold writes it down for those who open the log later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from refold import entries as e
from refold.messages import Assistant, User
from refold.session import Projection
from refold.session.items import Item
from refold.tokens import Calibration
from refold.tokens.thoughts import sealed_size

if TYPE_CHECKING:
    from refold.compaction.situation import Situation

RECENT = 200
"""Pairs that are kept for each model."""
SPREAD = 0.2
"""A line that its own points miss by more than this (median) says nothing."""
NONE = Calibration()


@dataclass
class _Line:
    """The pairs of one model, and the line through them."""

    pairs: dict[str, tuple[int, int]] = field(default_factory=dict[str, "tuple[int, int]"])
    fit: Calibration = NONE
    unread: int = 0

    def add(self, id: str, ours: int, theirs: int) -> None:
        self.unread += id not in self.pairs
        self.pairs[id] = (ours, theirs)
        if len(self.pairs) > RECENT:
            del self.pairs[next(iter(self.pairs))]

    def calibration(self) -> Calibration:
        """Fitted anew once a tenth of the pairs is new: a line through many hardly moves with one more."""
        if self.unread * 10 >= len(self.pairs) and self.unread:
            self.fit, self.unread = Calibration.fit(self.pairs.values()), 0
        return self.fit


@dataclass
class _Learnt:
    lines: dict[str, _Line] = field(default_factory=dict[str, _Line])
    items: Sequence[Item] = ()
    """The view that is being read; another one means that it was built anew."""
    read: int = 0
    total: int = 0
    forgotten: int = 0
    """Sealed thoughts of finished turns, which the provider no longer reads."""
    sealed: int = 0
    """Sealed thoughts of the turn that is going on."""

    def follow(self, s: Situation) -> None:
        """Read what is new in the view, as far as any window reaches."""
        if self.items is not s.items:
            self.items, self.read, self.total, self.forgotten, self.sealed = s.items, 0, 0, 0, 0
        changed = _last_change(s) if self.read < len(self.items) else 0
        while self.read < len(self.items) and self.total <= 2 * s.window:
            self._take(s, self.items[self.read], changed)
            self.total += s.counter_size(self.read)
            self.read += 1

    def _take(self, s: Situation, item: Item, changed: int) -> None:
        if isinstance(item.message, User):
            self.forgotten, self.sealed = self.forgotten + self.sealed, 0
        elif isinstance(item.message, Assistant):
            usage, at = s.usage_of(item), s.session.position(item.entries[-1])
            if usage is not None and at is not None and at > changed:
                line = self.lines.setdefault(_model(s.session[item.entries[-1]]), _Line())
                line.add(item.entries[-1], self.total - self.forgotten, usage.prompt)
            self.sealed += sealed_size(item.message, s.counter)


_known: WeakKeyDictionary[Projection, dict[str, _Learnt]] = WeakKeyDictionary()


def calibration(s: Situation) -> Calibration:
    """What is known about the provider's count for the session's present model: of the view's items, so that
    system prompt and tools are in the fixed part. Not `known` where there is too little to go by."""
    learnt = _known.setdefault(s.projection, {}).setdefault(s.counter.name, _Learnt())
    learnt.follow(s)
    model = present_model(s)
    found = learnt.lines[model].calibration() if model in learnt.lines else NONE
    if not found.known or found.spread > SPREAD:
        found = _written(s, model)
    return found


def note(s: Situation) -> dict[str, Any]:
    """What a fold writes down about it."""
    found = s.calibration
    if not found.known:
        return {}
    line = [round(found.scale, 4), round(found.fixed), found.points]
    return {"calibration": {"counter": s.counter.name, "model": present_model(s), "line": line}}


def _written(s: Situation, model: str) -> Calibration:
    """What the newest fold says, if it says it of this model."""
    match _noted(s):
        case {"counter": s.counter.name, "model": str(of), "line": [float(scale), int(fixed), int(points)]}:
            return Calibration(min(3.0, max(0.5, scale)), fixed, points) if of == model else NONE
        case _:
            return NONE


def _noted(s: Situation) -> dict[str, Any]:
    said: Any = s.newest_fold.details.get("calibration") if s.newest_fold else None
    return cast("dict[str, Any]", said) if isinstance(said, dict) else {}


def present_model(s: Situation) -> str:
    """The model that the next request goes to, as far as the log knows: of the newest reply with a usage,
    unless it was changed since."""
    replies, changes = s.projection.replies, s.session.annotations(e.ModelChange)
    last = s.session[s.items[replies[-1]].entries[-1]] if replies else None
    change = changes[-1] if changes else None
    changed = -1 if change is None else s.session.position(change.id)
    replied = -1 if last is None else s.session.position(last.id)
    if change is not None and changed is not None and changed > (replied or 0):
        return _model(change)
    return _model(last) if last is not None else str(_noted(s).get("model", ""))


def _model(entry: e.Entry) -> str:
    return getattr(entry, "model", None) or ""


def _last_change(s: Situation) -> int:
    """Position of the newest mark that changed the view; −1 without one."""
    marks = (s.session.annotations(kind) for kind in (e.Fold, e.Undo, e.Redo))
    positions = (s.session.position(mark.id) for kind in marks for mark in reversed(kind))
    return max((at for at in positions if at is not None), default=-1)
