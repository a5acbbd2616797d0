"""The engine as the package offers it: models may be given by name."""

from __future__ import annotations

from refold import engine
from refold.protocols import Model


class Engine(engine.Engine):
    """Folds sessions with a preset. Holds only caches: many engines, in many processes, can serve one
    session."""

    def find_model(self, name: str) -> Model:
        from refold.registry.models import model

        return model(name)
