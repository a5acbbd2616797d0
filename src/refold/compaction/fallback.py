"""The end that a design without one of its own may borrow, where the caller asks for it (R2): lines."""

from __future__ import annotations

from refold.compaction.plan import Plan, Reason, Stage
from refold.compaction.planning import climb
from refold.compaction.preset import Preset
from refold.compaction.rungs.dialogue import Dialogue
from refold.compaction.rungs.graded import Lines, Shape
from refold.compaction.situation import Due, Situation
from refold.compaction.triggers import Never
from refold.protocols import complete


def fallback_plan(preset: Preset, s: Situation) -> Plan | Reason:
    """What lies before the newest messages as lines, so that the view fits the window with room to grow."""
    if preset.settings.fallback == "none":
        return Reason("no_fallback", "the design has no other way, and none was asked for")
    shape = Shape(budget=preset.window, goal=preset.window // 2)
    stage = Stage(Never(), (Lines(shape, Dialogue(shape), name="fallback"),))
    due = Due("fallback", "the design's own folds leave more than the window")
    return complete(climb(preset, s, stage, due))
