"""The keyword arguments of `presets.get`, for editors: what the settings classes say, once more.

A test compares the two. Nothing here is loaded when a program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from refold.compaction.requests import Wanted
from refold.memory import MemoryParams
from refold.preserve.abridged import Limits as OutlineLimits
from refold.presets.pi import Override
from refold.session.history import History
from refold.session.toolnames import Kind
from refold.shrink import AnyRule
from refold.shrink import Limits as ShrinkLimits


class Keywords(TypedDict, total=False):
    """Of every preset."""

    budget: int | None
    window: int | None
    summary_seconds: float
    fallback: Literal["none", "digest"]


class RefoldKeywords(Keywords, total=False):
    output_reserve: int | None
    calibrate: bool
    auto: bool
    soft: float
    target: float
    summary_tokens: int
    state_tokens: int
    lines_share: float
    words_share: float
    min_gain: float
    cache_ttl: float
    cache_buffer: float
    unverified: Literal["mark", "remove"]
    summary_request: Wanted
    redact: bool


class AugmentKeywords(Keywords, total=False):
    trigger_on_history_size_chars: int
    trigger_on_history_size_chars_when_cache_expiring: int
    history_tail_size_chars_to_exclude: int
    prompt: str
    cache_ttl_ms: int
    buffer_time_before_cache_expiration_ms: int
    min_tail_exchanges: int
    summary_version: int
    summary_node_request_message_template: str
    summary_node_response_message: str
    abridged_history_params: OutlineLimits | dict[str, Any]
    tool_kinds: dict[str, Kind]
    history_summary_min_version: str
    bot_type: int | str
    memories_params: MemoryParams | dict[str, Any]
    carry_previous_summary: bool
    head_segment_chars: int
    summary_tokens: int
    params: str


class PiKeywords(Keywords, total=False):
    enabled: bool
    reserve_tokens: int
    keep_recent_tokens: int
    models: dict[str, Override] | dict[str, Any]


class WindowKeywords(Keywords, total=False):
    max_history: int
    compact_threshold: int
    compact_window: int
    summary_max_chars: int
    language: str
    temperature: float
    summary_timeout: float
    max_tool_iterations: int


class RoundsKeywords(Keywords, total=False):
    history_strategy: Literal["recent-only", "summary-only", "compressed"]
    recent_conversation_rounds: int
    compression_strategy: Literal["sliding-window"]
    compressed_budget: int
    compressed_result_chars: int
    summaries_budget: int
    line_tokens: int
    lines: Literal["model", "rule"]
    workspace_tokens: int
    workspace: Callable[[History], str] | None


class LayeredKeywords(Keywords, total=False):
    threshold: float
    min_messages: int
    keep_rounds: int
    layers: bool
    shrink: bool
    limits: ShrinkLimits | dict[str, Any]
    rules: dict[Kind, AnyRule]
    archive_tokens: int
    archive_prompt: str
    summary_model: str
    summary_timeout: float
