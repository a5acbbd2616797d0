"""Built-in providers of models, and those of installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

MODEL_ENTRY_POINTS = "refold.models"
"""Entry points: `name = "package.module:factory"`, called as `factory(model, **options)` for `name:model`.
The options are what is known and configured (`context_window` and the provider's `api_key`, `base_url`,
`timeout`, `cache`, `extra`), each only where it is set, and what the caller gave."""


class ProviderKind(NamedTuple):
    factory: str
    """`module:name`, imported when the first model is made."""
    told: tuple[str, ...]
    """Options that it takes."""


_REMOTE = ("api_key", "base_url", "context_window", "extra", "temperature", "timeout")
PROVIDERS = {
    "anthropic": ProviderKind("refold.models.anthropic:Anthropic", (*_REMOTE, "cache")),
    "local": ProviderKind("refold.models.local:Local", ("context_window",)),
    "openai": ProviderKind("refold.models.openai:OpenAIChat", _REMOTE),
    "openai-responses": ProviderKind("refold.models.openai:OpenAIResponses", (*_REMOTE, "reasoning")),
    "scripted": ProviderKind("refold.models.script_file:read_script", ("context_window",)),
}


def installed_models() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=MODEL_ENTRY_POINTS)}
