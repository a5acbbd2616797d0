"""The view: a snapshot of what the model sees, and its rendering in the providers' dialects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from refold.messages import Message, brief
from refold.protocols import TokenCounter
from refold.session.items import Item
from refold.text.glance import card


class View:
    """A snapshot of what the model sees. Rendering makes new dicts each time."""

    def __init__(
        self,
        items: Sequence[Item],
        *,
        counter: TokenCounter,
        count: Callable[[], int],
        system: str | None = None,
        tools: Sequence[Any] = (),
    ) -> None:
        self._items = items
        self._length = len(items)
        self.counter = counter
        self._count = count
        self.system = system
        self.tools = tools

    @cached_property
    def tokens(self) -> int:
        """Size by the exact counter, system prompt and tools included; counted on first use."""
        return self._count()

    @property
    def items(self) -> list[Item]:
        return list(self._items[: self._length])

    @property
    def messages(self) -> list[Message]:
        return [item.message for item in self.items]

    @property
    def text(self) -> str:
        """All readable text, one message after the other."""
        return "\n\n".join(message.text for message in self.messages)

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        # Counts nothing: an event loop asks for it whenever a task gives a view.
        counted = f", {self.tokens:,} tokens" if "tokens" in vars(self) else ""
        return f"<View: {self._length:,} messages{counted}>"

    def _repr_html_(self) -> str:
        return card(
            f"<View: {self._length:,} messages, {self.tokens:,} tokens>",
            [brief(message) for message in self.messages],
        )

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def to(self, dialect: str) -> Any:
        """The view in a provider's dialect (`refold.session.dialects`)."""
        from refold.session import dialects
        from refold.session.invariants import repair_by

        chosen = dialects.get(dialect)
        return chosen.render(repair_by(chosen.rules, self.items), system=self.system)

    def to_openai(self) -> list[dict[str, Any]]:
        return self.to("openai")

    def to_responses(self) -> list[dict[str, Any]]:
        return self.to("responses")

    def to_anthropic(self, *, cache: bool = True, ttl: str | None = None) -> dict[str, Any]:
        from refold.session.dialects import anthropic
        from refold.session.invariants import repair

        return anthropic.render(repair(self.items, "anthropic"), system=self.system, cache=cache, ttl=ttl)
