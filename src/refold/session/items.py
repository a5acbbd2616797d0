"""One thing the model sees, and which entries it stands for."""

from __future__ import annotations

import msgspec

from refold.messages import Message


class Item(msgspec.Struct, frozen=True, gc=False):
    """A message of the view. `fold` is the fold that put it there; None: it is an entry as it was said."""

    message: Message
    entries: tuple[str, ...] = ()
    fold: str | None = None

    def saying(self, message: Message) -> Item:
        """Another message in its place."""
        return Item(message, self.entries, self.fold)
