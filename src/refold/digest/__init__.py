"""A summary without a model: deterministic, checked by construction, always within its budget.

    text = digest(sources, budget=4_000, counter=tokens.get())     # dense, for a model
    digest(sources, budget=4_000, counter=…, form="readable")      # whole sentences, for people

Everything in it was said in the conversation (relative dates are computed, nothing else is).
"""

from __future__ import annotations

from collections.abc import Sequence

from refold.digest.facts import Source
from refold.digest.said import DigestForm, FactDigest
from refold.digest.sections import Digest
from refold.digest.templates import CHECKPOINT, PREFIX, archive, period
from refold.protocols import TokenCounter

__all__ = [
    "CHECKPOINT", "PREFIX", "Digest", "DigestForm", "FactDigest", "Source", "archive", "digest", "period",
]  # fmt: skip


def digest(
    sources: Sequence[Source],
    *,
    budget: int,
    counter: TokenCounter,
    previous: str = "",
    kept: Sequence[Source] = (),
    form: DigestForm = "dense",
) -> str:
    """Digest of `sources` (oldest first), in at most `budget` tokens.

    `previous`: text of an earlier summary whose sources are not among `sources`; its lines stay as they are,
    the newest where not all fit. `kept`: messages that stay in the view as they are; what they say need not
    be repeated.
    """
    return Digest(sources, previous, kept).text(budget, counter, form)
