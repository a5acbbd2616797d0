"""A model of a provider's prompt cache, prompt by prompt: the longest common prefix, a smallest size, a time to
live. What `compare.money` computes from sums alone must come to the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from refold.costs.prices import SECONDS, Prices, Ttl
from refold.messages import Usage

Block: TypeAlias = tuple[str, int]
"""A piece of a prompt: something that identifies its bytes (a hash), and its tokens."""


class Cached(msgspec.Struct, frozen=True):
    """What the provider holds after a request: the prompt, and when it was last used."""

    blocks: tuple[Block, ...] = ()
    time: float = 0.0


COLD = Cached()


def send(
    cached: Cached, blocks: Sequence[Block], now: float, *, prices: Prices, ttl: Ttl = "5m", output: int = 0
) -> tuple[Usage, Cached]:
    """How a request of these blocks is counted at `now`, and what the cache holds afterwards. Using an
    entry renews it; a prompt that is too small is neither read nor written and leaves the cache alone."""
    alive = now - cached.time < SECONDS[ttl]
    warm = common(cached.blocks, blocks) if alive else 0
    total = sum(tokens for _, tokens in blocks)
    usage = prices.prompt(warm, total - warm)
    kept = Cached(tuple(blocks), now) if total >= prices.min_cache else cached
    return msgspec.structs.replace(usage, output=output), kept


def common(one: Sequence[Block], other: Sequence[Block]) -> int:
    """Tokens of the longest common prefix."""
    tokens = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        tokens += a[1]
    return tokens
