"""The engine: the one door through which sessions are folded, looked at and unfolded."""

from refold.engine.branch import Branched
from refold.engine.engine import Engine

__all__ = ["Branched", "Engine"]
