"""An item of a view, and the entries it stands for."""

from __future__ import annotations

import msgspec

from refold.messages import Message


class Item(msgspec.Struct, frozen=True, gc=False):
    """A message of the view. `fold` is the fold that inserted it; None for an original entry."""

    message: Message
    entries: tuple[str, ...] = ()
    fold: str | None = None

    def saying(self, message: Message) -> Item:
        return Item(message, self.entries, self.fold)
