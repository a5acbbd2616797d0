"""A configuration, looked at before it is used: what would go wrong, item by item."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from refold import memory

_SAYS_WHO = re.compile(r"first[- ]person|[\"'“‘`]I[\"'”’`]|第一人称", re.IGNORECASE)
_SECTION = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+\S|[-*][ \t]+\S|\d{1,2}[.)][ \t]+\S|\*\*[^*\n]{1,80}\*\*)", re.M
)
SECTIONS = 2
"""So many headings or list items make a structure."""


class Item(msgspec.Struct, frozen=True):
    """One thing that is wrong: which setting, and what would happen."""

    key: str
    text: str


def check_prompt(prompt: str) -> Iterator[Item]:
    """Problems of a prompt that asks for a summary in the agent's own voice."""
    if not prompt.strip():
        yield Item("prompt", "is blank: nothing is ever summarised")
        return
    if "<summary>" not in prompt:
        yield Item("prompt", "does not ask for <summary> tags: thoughts of the model may become the summary")
    if not _SAYS_WHO.search(prompt):
        yield Item("prompt", 'does not say who "I" is: the agent may take the summary for the user\'s words')
    if len(_SECTION.findall(prompt)) < SECTIONS:
        yield Item("prompt", "names no sections: what a summary holds is left to chance")


def check_sizes(*, trigger: int, expiring: int, tail: int, ttl: int, buffer: int) -> Iterator[Item]:
    """Problems of thresholds and times."""
    if trigger <= 0:
        yield Item("trigger_on_history_size_chars", "is 0: a long history is never folded by its size")
    elif tail >= trigger:
        yield Item(
            "history_tail_size_chars_to_exclude",
            f"{tail} is not below the trigger {trigger}: there is nothing left to fold when it fires",
        )
    if (ttl or buffer or expiring) and buffer >= ttl:
        yield Item(
            "buffer_time_before_cache_expiration_ms",
            f"{buffer} is not below cache_ttl_ms {ttl}: the timer is never armed",
        )


def check_memory(params: memory.MemoryParams) -> Iterator[Item]:
    """Problems of memory compression."""
    for text in memory.check(params):
        yield Item("memories_params", text)
