"""The preset `augment`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Self

from msgspec.structs import force_setattr, replace

from refold import memory
from refold.compaction.exchanges import SEGMENT
from refold.compaction.plan import Stage
from refold.compaction.preset import Flaw, Preset, Settings, about
from refold.compaction.requests import load
from refold.compaction.strategies.summary_node import SummaryNode, newest_node
from refold.compaction.triggers import HistorySize
from refold.facts.abridged import OutlineLimits
from refold.memory import MemoryParams
from refold.presets import parameters
from refold.session.toolnames import ToolKind, canonical_tool_name

SUMMARY_PROMPT = load("augment_summary")
NODE_PROMPT = load("augment_node")
REVIEW_BOTS = {"1", "2", "CODE_REVIEW_BOT", "CODE_REVIEW_EVAL_BOT"}
MIN_CHARS_PER_TOKEN = 3
"""Fewest characters per token in most text: converts a token budget to characters."""


class Augment(Settings, frozen=True, kw_only=True):
    """Counts characters: past a threshold, or shortly before the cache expires, the oldest exchanges become
    one versioned node with an abridged history and a summary."""

    trigger_on_history_size_chars: Annotated[int, about("characters at which to fold; 0: off", "A2, A5")] = 0
    trigger_on_history_size_chars_when_cache_expiring: Annotated[
        int, about("the same, just before the provider's cache expires; 0: off", "A2, A6")
    ] = 0
    history_tail_size_chars_to_exclude: Annotated[
        int, about("characters of newest exchanges that stay", "A2, A7", ge=0)
    ] = 0
    prompt: Annotated[
        str, about("asks for the summary; blank: write none, keep existing nodes", "A2, A3, A18")
    ] = ""
    cache_ttl_ms: Annotated[int, about("how long the provider's cache lives", "A2, A6", ge=0)] = 0
    buffer_time_before_cache_expiration_ms: Annotated[
        int, about("how long before that the timer fires", "A2, A6", ge=0)
    ] = 0
    min_tail_exchanges: Annotated[int, about("number of exchanges that always stay", "A2, A7", ge=0)] = 1
    summary_version: Annotated[int, about("only nodes of this version count", "A2, A11")] = 3
    summary_node_request_message_template: Annotated[
        str, about("text of the node, with {abridged_history} and {summary}", "A2, A4, A10")
    ] = NODE_PROMPT
    summary_node_response_message: Annotated[str, about("the acknowledgement", "A2, A10")] = (
        "Ok. I will continue the conversation from this point."
    )
    abridged_history_params: Annotated[OutlineLimits, about("limits of the outline", "A2, A13–A15")] = (
        OutlineLimits()
    )
    tool_kinds: Annotated[dict[str, ToolKind], about("kinds of further tools, as a JSON object", "A16")] = {}
    history_summary_min_version: Annotated[str, about("minimum version; empty: off", "A1, A3")] = "0"
    bot_type: Annotated[int | str, about("review bots do not fold", "A3")] = ""
    memories_params: Annotated[MemoryParams, about("settings of memory compression", "A1, A19")] = (
        MemoryParams()
    )
    carry_previous_summary: Annotated[bool, about("nest summaries instead of replacing them", "A12")] = False
    head_segment_chars: Annotated[int, about("characters of JSON in a segment of the head", "A8", gt=0)] = (
        SEGMENT
    )
    summary_tokens: Annotated[int, about("length of a summary without a model", "A18", gt=0)] = 2_000
    params: Annotated[str, about("all of these as one JSON object, or feature flags", "A1")] = ""

    @property
    def off(self) -> str:
        """Why nothing is folded, not even by hand."""
        if not self.history_summary_min_version.strip():
            return "history_summary_min_version is not set: summarisation is off"
        if str(self.bot_type) in REVIEW_BOTS:
            return f"bot_type is {self.bot_type}: review bots do not summarise"
        return ""

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Settings that arrive as data: those that are named win over `params`, whatever their value."""
        own = {name: value for name, value in given.items() if name != "params"}
        return super().parse({**parameters.read(given.get("params", ""), cls), **own})

    def __post_init__(self) -> None:
        """What `params` says is put in its place; settings that differ from their default win."""
        super().__post_init__()
        if self.params:
            told, default = parameters.read(self.params, type(self)), type(self)()
            force_setattr(self, "params", "")
            for name, value in told.items():
                if getattr(self, name) == getattr(default, name):
                    force_setattr(self, name, value)

    def fitted(self, budget: int) -> Self:
        """Half of the budget for the tail, a sixth each for the outline and the summary."""
        chars, limits = budget * MIN_CHARS_PER_TOKEN, self.abridged_history_params
        tail, outline = self.history_tail_size_chars_to_exclude, min(limits.total_chars_limit, chars // 6)
        return replace(
            self,
            window=budget,
            prompt=self.prompt if self.prompt.strip() else SUMMARY_PROMPT,
            trigger_on_history_size_chars=self.trigger_on_history_size_chars or chars,
            history_tail_size_chars_to_exclude=min(tail or chars, chars // 2),
            abridged_history_params=replace(limits, total_chars_limit=outline),
            summary_tokens=min(self.summary_tokens, max(budget // 6, 50)),
        )

    def build(self) -> Preset:
        blank = not self.prompt.strip()
        template = self.summary_node_request_message_template
        if "{summary}" not in template:
            logging.getLogger(__name__).error(
                "summary_node_request_message_template has no {summary}: the default template is used"
            )
            template = NODE_PROMPT
        node = SummaryNode(
            prompt=SUMMARY_PROMPT if blank else self.prompt,
            template=template,
            acknowledgement=self.summary_node_response_message,
            tail_chars=self.history_tail_size_chars_to_exclude,
            min_tail=self.min_tail_exchanges,
            limits=self.abridged_history_params,
            carry_previous=self.carry_previous_summary,
            segment=self.head_segment_chars,
            summary_tokens=self.summary_tokens,
            names={canonical_tool_name(name): kind for name, kind in self.tool_kinds.items()},
            off=self.off,
        )
        trigger = HistorySize(
            self.trigger_on_history_size_chars,
            self.trigger_on_history_size_chars_when_cache_expiring,
            self.off or ("the prompt is blank: summarisation is off" if blank else ""),
        )
        version = str(self.summary_version)
        return Preset(
            name="augment",
            settings=self,
            measure="chars",
            window=self.window,
            version=version,
            accepts=partial(newest_node, version=version, off=bool(self.off)),
            stages=(Stage(trigger, (node,)),),
        )

    def cache_delay(self, age: float) -> float | None:
        delay = self.cache_ttl_ms - age * 1000 - self.buffer_time_before_cache_expiration_ms
        return delay / 1000 if delay > 0 else None

    def problems(self) -> list[Flaw]:
        """What would go wrong with these settings, item by item (A23)."""
        off = [Flaw("history_summary_min_version", self.off)] if self.off else []
        flaws = memory.check(self.memories_params) if self.memories_params != MemoryParams() else []
        notes = [Flaw("memories_params", each) for each in flaws]
        return [*off, *_prompt_flaws(self.prompt), *self._size_flaws(), *notes]

    def _size_flaws(self) -> Iterator[Flaw]:
        """Problems of thresholds and times."""
        trigger, tail = self.trigger_on_history_size_chars, self.history_tail_size_chars_to_exclude
        expiring = self.trigger_on_history_size_chars_when_cache_expiring
        frame = self.summary_node_request_message_template + self.summary_node_response_message
        outline, summary = self.abridged_history_params.total_chars_limit, self.summary_tokens
        node = outline + summary * MIN_CHARS_PER_TOKEN + len(frame)
        if trigger <= 0:
            yield Flaw("trigger_on_history_size_chars", "is 0: a long history is never folded by its size")
        for name, threshold in (("trigger", trigger), ("trigger ahead of cache expiry", expiring)):
            if 0 < threshold <= tail:
                why = (
                    f"{tail} is not below the {name} {threshold}: there is nothing left to fold when it fires"
                )
                yield Flaw("history_tail_size_chars_to_exclude", why)
            elif 0 < threshold <= tail + node:
                yield Flaw(
                    "abridged_history_params",
                    f"tail {tail} and a node of up to {node} characters are not below the {name} "
                    f"{threshold}: it may fire again after every exchange",
                )
        ttl, buffer = self.cache_ttl_ms, self.buffer_time_before_cache_expiration_ms
        if (ttl or buffer or expiring) and buffer >= ttl:
            never = f"{buffer} is not below cache_ttl_ms {ttl}: the timer is never armed"
            yield Flaw("buffer_time_before_cache_expiration_ms", never)


_SAYS_WHO = re.compile(r"first[- ]person|[\"'“‘`]I[\"'”’`]|第一人称", re.IGNORECASE)
_SECTION = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]+\S|[-*][ \t]+\S|\*\*[^*\n]{1,80}\*\*)|(?<![\w.])\d{1,2}[.)][ \t]{0,8}[^\s\d]",
    re.M,
)
SECTIONS = 2
"""So many headings or list items make a structure."""


def _prompt_flaws(prompt: str) -> Iterator[Flaw]:
    """Problems of a prompt that asks for a summary in the agent's own voice."""
    if not prompt.strip():
        yield Flaw("prompt", "is blank: nothing is ever summarised")
        return
    if "<summary>" not in prompt:
        yield Flaw("prompt", "does not ask for <summary> tags: thoughts of the model may become the summary")
    if not _SAYS_WHO.search(prompt):
        yield Flaw("prompt", 'does not say who "I" is: the agent may take the summary for the user\'s words')
    if len(_SECTION.findall(prompt)) < SECTIONS:
        yield Flaw("prompt", "names no sections: what a summary holds is left to chance")
