"""The log as a tree, and the view of it."""

from refold.session.items import Item
from refold.session.snapshot import View
from refold.session.tree import Session
from refold.session.view import Projection

__all__ = ["Item", "Projection", "Session", "View"]
