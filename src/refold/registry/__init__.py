"""Composition root: turns names into models, presets, stores and sessions, by the configuration of this
machine.

Names are loaded on first use: reading the configuration loads nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.registry.models import model, model_names, model_window, preset, summariser
    from refold.registry.sessions import load, open  # noqa: A004

__all__ = ["load", "model", "model_names", "model_window", "open", "preset", "summariser"]


def _loaded(name: str) -> Any:
    home = "sessions" if name in ("load", "open") else "models"
    return getattr(import_module(f"refold.registry.{home}"), name)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _loaded(name)
