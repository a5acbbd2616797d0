"""Prices of a model and the cost of a request."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from refold.messages import Usage

MILLION = 1_000_000
Dollars: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Ttl: TypeAlias = Literal["5m", "1h"]
CACHE_SECONDS: dict[Ttl, float] = {"5m": 300.0, "1h": 3600.0}
"""Seconds a provider keeps a prompt; each use renews it."""


class Long(msgspec.Struct, frozen=True):
    """Price factors for the whole request if its prompt exceeds `above` tokens."""

    above: int
    input: float = 1.0
    output: float = 1.0


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars per million tokens. Default cache prices are Anthropic's: 1.25 × input to write for five
    minutes, 2 × for an hour, 0.1 × to read."""

    input: Dollars
    output: Dollars
    cache_read: Dollars | None = None
    cache_write: Dollars | None = None
    cache_write_1h: Dollars | None = None
    min_cache: Annotated[int, msgspec.Meta(ge=0)] = 1024
    """Shortest prefix that is cached, in tokens."""
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
        """Dollars for one request, from the provider's token counts."""
        if not usage.is_meant:
            return 0.0
        tier = self.long if self.long and usage.prompt > self.long.above else Long(0)
        prompt = (
            usage.input * self.input + usage.cache_read * self.reading + usage.cache_write * self.writing(ttl)
        )
        return (prompt * tier.input + usage.output * self.output * tier.output) / MILLION

    def prompt(self, warm: int, cold: int) -> Usage:
        """Usage for a prompt of `warm` cached and `cold` uncached tokens: cache reads and writes, or plain
        input if the prompt is too short to cache."""
        if warm + cold < self.min_cache:
            return Usage(input=warm + cold)
        if warm < self.min_cache:
            return Usage(cache_write=warm + cold)
        return Usage(cache_read=warm, cache_write=cold)
