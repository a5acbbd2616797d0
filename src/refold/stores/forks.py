"""Support for forks. A forked child has one thread, and locks held by other threads stay locked; objects with
locks are notified and make new ones."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forked(Protocol):
    def after_fork(self) -> None:
        """Called in the child before anything else runs there."""
        ...


_followers: WeakSet[Forked] = WeakSet()


def call_after_fork(follower: Forked) -> None:
    _followers.add(follower)


def _tell() -> None:
    for follower in tuple(_followers):
        follower.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell)
