"""refold: long agent conversations, inside the window, with nothing lost.

    from refold import Engine, Session, presets, messages as m

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold import errors, messages, presets
    from refold.compaction.plan import Failed, Plan, Reason
    from refold.entries import Fold
    from refold.hooks import Hooks
    from refold.integrations import wrap
    from refold.loop import run
    from refold.registry.engine import Engine
    from refold.registry.models import model
    from refold.registry.sessions import load, open  # noqa: A004
    from refold.session import Session, View

__version__ = "0.1.0"

__all__ = [
    "Engine", "Failed", "Fold", "Hooks", "Plan", "Reason", "Session", "View", "__version__", "errors", "load",
    "messages", "model", "open", "presets", "run", "wrap",
]  # fmt: skip

_HOMES = {
    "Engine": "refold.registry.engine",
    "Failed": "refold.compaction.plan",
    "Fold": "refold.entries",
    "Hooks": "refold.hooks",
    "Plan": "refold.compaction.plan",
    "Reason": "refold.compaction.plan",
    "Session": "refold.session",
    "View": "refold.session",
    "load": "refold.registry.sessions",
    "model": "refold.registry.models",
    "open": "refold.registry.sessions",
    "run": "refold.loop",
    "wrap": "refold.integrations",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in ("errors", "messages", "presets"):
        value = import_module(f"refold.{name}")
    else:
        raise AttributeError(f"module 'refold' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
