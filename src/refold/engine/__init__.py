"""The engine folds sessions, shows views and takes folds back."""

from refold.engine.branch import Branched
from refold.engine.engine import Engine

__all__ = ["Branched", "Engine"]
