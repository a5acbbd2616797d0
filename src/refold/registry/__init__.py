"""Composition root: names become models, presets, stores and sessions, as this machine is configured."""

from refold.registry.models import model, model_names, preset, summariser, window
from refold.registry.sessions import load, open  # noqa: A004

__all__ = ["load", "model", "model_names", "open", "preset", "summariser", "window"]
