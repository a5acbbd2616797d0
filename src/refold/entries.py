"""Entries of the log.

Two families. *Path entries* have a parent and form the tree; the newest one is the leaf. *Annotations*
name a target and never move the leaf. A `Leaf` record is how moving the leaf itself is remembered.
Entries are never changed and never removed.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any, TypeAlias

import msgspec

from refold.messages import Content, Message, Usage
from refold.text.glance import card


class Entry(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="type", omit_defaults=True):
    """Common to everything in the log. `time` is seconds since 1970, UTC."""

    id: str
    time: float = 0.0

    @property
    def on_path(self) -> bool:
        return False

    @property
    def moves(self) -> bool:
        """True where appending this entry changes what the path is; compare-and-swap guards those."""
        return self.on_path


class PathEntry(Entry, frozen=True, kw_only=True):
    parent: str | None = None

    @property
    def on_path(self) -> bool:
        return True


class MessageEntry(PathEntry, frozen=True, kw_only=True, tag="message"):
    """A message, and what only its place in the conversation gives it."""

    message: Message
    usage: Usage | None = None
    model: str | None = None
    """`provider:model` that produced or received it, where known."""
    meta: dict[str, Any] = {}
    """What the source said beyond this, kept for a faithful export."""


class Note(PathEntry, frozen=True, kw_only=True, tag="note"):
    """Text put into the context by a program (not by the user, not by the model)."""

    content: Content
    kind: str = ""
    meta: dict[str, Any] = {}


LEFT = "left"
"""Kind of an edit that puts nothing: the record of its fold tells of what stood there."""


class Edit(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Replace the path entries `first` … `last` (inclusive) by `put`."""

    first: str
    last: str
    put: tuple[Message, ...] = ()
    kind: str = "summary"
    """summary · clip · left · mask · shrink · line · trim · hide"""


class Left(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A stretch of the path, both ends included, of which a fold took entries out of the view: how many, and
    their tokens. Which ones follows from the log (`refold.compaction.details.rows`)."""

    first: str
    last: str
    entries: int
    size: int


class Lost(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One row of the ledger: an entry that a fold took out of the view."""

    id: str
    kind: str
    size: int
    hash: str
    key: str


class Files(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Files a stretch of conversation touched, each list sorted or in order of first appearance."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    more: int = 0
    """How many others there were, touched longer ago, where only the newest are listed."""

    @property
    def rows(self) -> list[tuple[str, str]]:
        kinds = ("modified", "created", "deleted", "read")
        return [(kind, ", ".join(paths)) for kind in kinds if (paths := getattr(self, kind))]


class Fold(PathEntry, frozen=True, kw_only=True, tag="fold", rename={"strategy": "rung"}):
    """A list of edits made together, with everything that explains them."""

    edits: tuple[Edit, ...]
    preset: str
    version: str = ""
    strategy: str = ""
    reason: str = ""
    summary: str = ""
    """The bare summary text: input of the next one."""
    first_kept: str | None = None
    tokens_before: int = 0
    tokens_after: int = 0
    files: Files = Files()
    author: str = ""
    """Model name, `digest`, or `import:FORMAT`."""
    requests: int = 0
    usage: Usage | None = None
    left: tuple[Left, ...] = ()
    """What left the view, in order."""
    ledger: tuple[Lost, ...] = ()
    """The same as rows, in files of 0.1.0. A row per entry made one fold of a long session 85 MB."""
    check: dict[str, Any] = {}
    """Report of the verification."""
    details: dict[str, Any] = {}
    """What the preset wants to find again at the next fold."""

    def __repr__(self) -> str:
        sizes = f"{self.tokens_before:,} → {self.tokens_after:,} tokens"
        left = f"{sum(stretch.entries for stretch in self.left):,} entries left the view"
        return f"<Fold {self.id}: {self.preset} ({self.strategy}), {sizes}, {left}, by {self.author}>"

    def _repr_html_(self) -> str:
        return card(repr(self), [("why", self.reason), ("summary", self.summary), *self.files.rows])


class Undo(PathEntry, frozen=True, kw_only=True, tag="undo"):
    """From here on the fold is as if it had not happened."""

    fold: str


class Redo(PathEntry, frozen=True, kw_only=True, tag="redo"):
    fold: str


class BranchSummary(PathEntry, frozen=True, kw_only=True, tag="branch"):
    """What happened on a branch that was left; child of the position moved to."""

    summary: str
    origin: str | None = None
    """The leaf that was left."""
    files: Files = Files()
    author: str = ""
    meta: dict[str, Any] = {}


class ModelChange(PathEntry, frozen=True, kw_only=True, tag="model"):
    model: str | None = None
    thinking: str | None = None
    meta: dict[str, Any] = {}


class Other(PathEntry, frozen=True, kw_only=True, tag="other"):
    """A place on the path that the model never sees: foreign metadata, kept as it came."""

    kind: str = ""
    raw: dict[str, Any] = {}


class Hole(PathEntry, frozen=True, kw_only=True, tag="hole"):
    """The place of an entry that is lost: everything else of the log still hangs together. The model sees
    that something was there."""

    role: str = ""
    """Whose message it was, where that can be made out, and which call it answered."""
    call_id: str | None = None
    why: str = ""


class Leaf(Entry, frozen=True, kw_only=True, tag="leaf"):
    """The leaf was moved to `target` (None: before the first entry)."""

    target: str | None = None

    @property
    def moves(self) -> bool:
        return True


class Annotation(Entry, frozen=True, kw_only=True):
    target: str | None = None


class Label(Annotation, frozen=True, kw_only=True, tag="label"):
    """Names an entry; an empty text takes the name away."""

    text: str = ""


class Pin(Annotation, frozen=True, kw_only=True, tag="pin"):
    pass


class Unpin(Annotation, frozen=True, kw_only=True, tag="unpin"):
    pass


class Failure(Annotation, frozen=True, kw_only=True, tag="failure", rename={"strategy": "rung"}):
    """An attempt to fold that changed nothing. `target` is the last path entry at the time."""

    code: str = ""
    text: str = ""
    preset: str = ""
    strategy: str = ""
    requests: int = 0
    usage: Usage | None = None


class TurnLine(Annotation, frozen=True, kw_only=True, tag="line"):
    """The one-line summary of the turn that ends with `target` (in 0.1: that starts there)."""

    turn: int
    text: str
    author: str = ""


class LearnedWindow(Annotation, frozen=True, kw_only=True, tag="window"):
    """A provider said how large its window really is."""

    model: str
    tokens: int


class State(Annotation, frozen=True, kw_only=True, tag="state"):
    """A named value of a program; the newest one of a name counts."""

    name: str
    value: Any = None


class Info(Annotation, frozen=True, kw_only=True, tag="info"):
    """Name and other facts of the session; later ones override earlier ones."""

    name: str | None = None
    cwd: str | None = None
    meta: dict[str, Any] = {}


class Unknown(Entry, frozen=True, kw_only=True, tag="unknown"):
    """An entry of a kind this release does not know (`raw` is all of it). On the path if it has a parent, or
    says that it has none."""

    raw: dict[str, Any] = {}

    @property
    def on_path(self) -> bool:
        return isinstance(self.raw.get("parent", 0), str | None)

    @property
    def parent(self) -> str | None:
        return self.raw.get("parent")


AnyPathEntry: TypeAlias = (
    MessageEntry | Note | Fold | Undo | Redo | BranchSummary | ModelChange | Other | Hole | Unknown
)
AnyAnnotation: TypeAlias = Label | Pin | Unpin | Failure | TurnLine | LearnedWindow | State | Info
AnyEntry: TypeAlias = AnyPathEntry | AnyAnnotation | Leaf


def key(entry_id: str) -> str:
    """The recall key of an entry: short enough for a stub, the same everywhere and forever."""
    digest = hashlib.blake2b(entry_id.encode("utf-8", "surrogatepass"), digest_size=5).digest()
    return base64.b32encode(digest).decode().lower()[:7]
