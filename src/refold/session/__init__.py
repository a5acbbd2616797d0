"""The log as a tree, and the view of it."""

from refold.session.history import Base, History, Snapshot
from refold.session.items import Item
from refold.session.projection import Projection
from refold.session.tree import Session
from refold.session.view import View

__all__ = ["Base", "History", "Item", "Projection", "Session", "Snapshot", "View"]
