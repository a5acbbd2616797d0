"""Prices of one model and what a request costs."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from refold.messages import Usage

MILLION = 1_000_000
Ttl: TypeAlias = Literal["5m", "1h"]
CACHE_SECONDS: dict[Ttl, float] = {"5m": 300.0, "1h": 3600.0}
"""How long a provider keeps a prompt; using it renews it."""


class Long(msgspec.Struct, frozen=True):
    """Beyond `above` tokens of prompt the whole request costs this many times as much."""

    above: int
    input: float = 1.0
    output: float = 1.0


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars per million tokens. Without figures of its own a cache costs what Anthropic's costs:
    1.25 × to write for five minutes, 2 × for an hour, 0.1 × to read."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    min_cache: int = 1024
    """The smallest prefix that is kept, in tokens."""
    long: Long | None = None

    @property
    def reading(self) -> float:
        return 0.1 * self.input if self.cache_read is None else self.cache_read

    def writing(self, ttl: Ttl = "5m") -> float:
        short = 1.25 * self.input if self.cache_write is None else self.cache_write
        if ttl == "5m":
            return short
        if self.cache_write_1h is not None:
            return self.cache_write_1h
        return 2.0 * self.input if self.cache_write is None else short

    def cost(self, usage: Usage, ttl: Ttl = "5m") -> float:
        """Dollars for one request as the provider counted it."""
        if not usage.is_meant:
            return 0.0
        tier = self.long if self.long and usage.prompt > self.long.above else Long(0)
        prompt = (
            usage.input * self.input + usage.cache_read * self.reading + usage.cache_write * self.writing(ttl)
        )
        return (prompt * tier.input + usage.output * self.output * tier.output) / MILLION

    def prompt(self, warm: int, cold: int) -> Usage:
        """How a prompt of `warm` tokens that a cache holds and `cold` ones that it does not is counted:
        read and written, or plain input where there is too little to keep."""
        if warm + cold < self.min_cache:
            return Usage(input=warm + cold)
        return (
            Usage(cache_read=warm, cache_write=cold)
            if warm >= self.min_cache
            else Usage(cache_write=warm + cold)
        )
