"""Composition root: names become models, presets, stores and sessions, as this machine is configured.

Names are loaded when they are first used: whoever only reads the configuration waits for nothing else."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.registry.models import model, model_names, preset, summariser, window
    from refold.registry.sessions import load, open  # noqa: A004

__all__ = ["load", "model", "model_names", "open", "preset", "summariser", "window"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'refold.registry' has no attribute {name!r}")
    home = "sessions" if name in ("load", "open") else "models"
    return getattr(import_module(f"refold.registry.{home}"), name)
