"""Window and preset of a request, by the name of its model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from refold.compaction.preset import Preset
from refold.errors import SettingError, UnknownName
from refold.models.remote import Remote
from refold.models.retry import Wrapped
from refold.models.scripted import Scripted
from refold.protocols import Event, Request
from refold.registry import configuration, models
from refold.registry.configuration import GatewayModel, GatewaySettings
from refold.registry.engine import Engine
from refold.text.truncate import head
from refold.tokens.fitting import fit

DEFAULT_WINDOW = 128_000
"""Window of a model that is neither listed nor configured."""
RECORD = 16_000
"""Tokens of a record that answers a compaction call; at most an eighth of the window."""
NOTES_DIVISOR = 3
"""A model's notes may take a third of a record."""
WINDOW_STEP = 4096
"""Granularity of windows smaller than the model's own."""
MAX_ENGINES = 64


class _Apart(Wrapped):
    """The model that writes summaries, without the prompts and tools of the chat. A fold may be shown in
    every session with the same messages, so it must not depend on one client's prompt."""

    def stream(self, request: Request) -> AsyncIterator[Event]:
        """Removes prompts and tools. A request that continues the chat shares its messages (`stable`)."""
        apart = msgspec.structs.replace(request, system=None, tools=()) if request.stable else request
        return self.model.stream(apart)


class ModelRouting:
    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self._config = configuration.load_configuration()
        self._summariser = models.summariser(self._config)
        self._engines: dict[tuple[str, int], Engine] = {}
        self.of = lru_cache(1024)(self._of)
        self.engine_for("")  # a wrong preset is said at once

    async def close(self) -> None:
        if isinstance(self._summariser, Remote):
            await self._summariser.aclose()

    def _of(self, model: str) -> int:
        rule = self._rule(model)
        if window := (rule.window if rule else None) or self.settings.window:
            return window
        for provider in ("anthropic", "openai"):
            try:
                return models.model_window(f"{provider}:{model}", self._config)
            except (SettingError, UnknownName):
                continue
        return DEFAULT_WINDOW

    def engine_for(self, model: str, at_most: int | None = None) -> Engine:
        """The engine for a model. `at_most` limits the view to these tokens."""
        rule, window = self._rule(model), self.of(model)
        if at_most is not None:
            window = min(window, max(WINDOW_STEP, at_most // WINDOW_STEP * WINDOW_STEP))
        name = (rule.preset if rule else None) or self.settings.preset or self._config.preset or "refold"
        engine = self._engines.get((name, window))
        if engine is None:
            if len(self._engines) > MAX_ENGINES:
                self._engines.clear()
            preset: Preset = models.preset(name, {"window": window}, config=self._config)
            writer = None if self._summariser is None else _Apart(self._summariser)
            engine = Engine(preset, model=writer, summariser="same")
            self._engines[name, window] = engine
        return engine

    def recorder(self, model: str, notes: str = "") -> Engine:
        """The engine that makes the record for a compaction call, with or without a model's notes."""
        tokens = self.settings.record_tokens or min(RECORD, self.of(model) // 8)
        engine = self._engines.get(("", tokens))
        if engine is None:
            engine = Engine(models.preset("refold", budget=tokens, config=self._config))
            self._engines["", tokens] = engine
        if not notes:
            return engine
        preset = engine.preset
        kept = (tuple(x for x in stage.strategies if x.name != "clip") for stage in preset.stages)
        stages = tuple(
            replace(stage, strategies=strategies)
            for stage, strategies in zip(preset.stages, kept, strict=True)
        )
        written = fit(notes, tokens // NOTES_DIVISOR, engine.counter, head)
        return Engine(replace(preset, stages=stages), model=Scripted(name=model or "model", then=written))

    def _rule(self, model: str) -> GatewayModel | None:
        rules = self.settings.models
        return next((rule for name, rule in rules.items() if fnmatchcase(model, name)), None)
