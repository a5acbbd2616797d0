"""Models: providers, a local model, and scripted ones for tests.

Importing this package is cheap: providers load their SDK when the first model is made. Most callers use
the registry (`refold.model("openai:gpt-…")`); tests use `Scripted` directly.
"""

from __future__ import annotations

from refold.models.reply import Reply, complete
from refold.models.retry import Retry, Retrying
from refold.models.scripted import Scripted, ScriptExhausted, cut, fail, say, stall

__all__ = [
    "Reply",
    "Retry",
    "Retrying",
    "ScriptExhausted",
    "Scripted",
    "complete",
    "cut",
    "fail",
    "say",
    "stall",
]
