"""The engine as the package offers it: models are known by their names."""

from __future__ import annotations

from refold import engine
from refold.protocols import Model


class Engine(engine.Engine):
    """Folds sessions as a preset says. Holds caches only: many engines, in many processes, can serve one."""

    def find_model(self, name: str) -> Model:
        from refold.registry.models import model

        return model(name)
