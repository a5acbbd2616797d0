"""The engine folds sessions, shows views and takes folds back."""

from refold.engine.engine import Engine

__all__ = ["Engine"]
