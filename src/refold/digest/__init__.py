"""A summary without a model: deterministic, checked by construction, always within its budget.

    made = digest(sources, budget=4_000, counter=tokens.get())
    made.render()              # dense, for a model
    made.render("readable")    # whole sentences, for people

Everything in it was said in the conversation (relative dates are computed, nothing else is).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from refold.digest.compose import Material, compose
from refold.digest.sections import Form, Name, Section
from refold.digest.source import Source
from refold.protocols import TokenCounter

__all__ = ["Digest", "Form", "Section", "Source", "digest"]


@dataclass(frozen=True)
class Digest:
    """Both forms of one digest, each within the budget; a form is composed when first asked for."""

    budget: int
    counter: TokenCounter
    _material: Material = field(repr=False, compare=False)

    @cached_property
    def _made(self) -> dict[Form, tuple[Section, ...]]:
        return {}

    def sections(self, form: Form = "dense") -> tuple[Section, ...]:
        """The sections that have something to say, in their order."""
        if form not in self._made:
            self._made[form] = compose(self._material, self.budget, self.counter, form)
        return self._made[form]

    def section(self, name: Name, form: Form = "dense") -> str:
        """The text of one section; empty where there is none."""
        return next((section.text for section in self.sections(form) if section.name == name), "")

    def render(self, form: Form = "dense") -> str:
        """The text: never more than `budget` tokens by `counter`."""
        return "\n\n".join(section.render() for section in self.sections(form))

    def within(self, budget: int) -> Digest:
        """The same conversation in another budget; what was read is not read again."""
        return Digest(max(0, budget), self.counter, self._material)

    def tokens(self, form: Form = "dense") -> int:
        return self.counter.text(self.render(form))


def digest(
    sources: Sequence[Source],
    *,
    budget: int,
    counter: TokenCounter,
    previous: str = "",
    kept: Sequence[Source] = (),
) -> Digest:
    """Digest of `sources` (oldest first).

    `previous`: text of an earlier summary whose sources are not among `sources`; its lines compete again
    and keep their recall keys. `kept`: messages that stay in the view as they are; what they say need not
    be repeated.
    """
    return Digest(max(0, budget), counter, Material(sources, previous, kept))
