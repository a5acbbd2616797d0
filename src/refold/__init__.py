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
    from refold.engine import Engine
    from refold.entries import Fold
    from refold.hooks import Hooks
    from refold.integrations import wrap
    from refold.loop import run
    from refold.protocols import Model
    from refold.registry.models import model
    from refold.registry.sessions import load, open  # noqa: A004
    from refold.session import Session, View

__version__ = "0.1.0"

__all__ = [
    "Engine", "Failed", "Fold", "Hooks", "Plan", "Reason", "Session", "View", "__version__", "errors", "load",
    "messages", "model", "open", "presets", "run", "wrap",
]  # fmt: skip

_HOMES = {
    "Engine": "refold.engine",
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


def _model_named(name: str) -> Model:
    """How `Engine(model="openai:…")` finds its model. Installed here, in one place: the engine may not know
    the registry, which is above it, and which is loaded when the first name is used."""
    from refold.registry.models import model

    return model(name)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        if name == "Engine":
            value.resolver = _model_named
    elif name in ("errors", "messages", "presets"):
        value = import_module(f"refold.{name}")
    else:
        raise AttributeError(f"module 'refold' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
