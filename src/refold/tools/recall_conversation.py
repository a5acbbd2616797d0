"""recall_conversation: what the model no longer sees of the conversation (D6). The engine answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from refold.protocols import ToolSpec
from refold.recall.tool import SPEC
from refold.tools.base import Effect, Envelope, Place, success
from refold.tools.workspace import Refused


class RecallConversation:
    """Its arguments are read by whoever answers, leniently: models carry other spellings over."""

    spec: ToolSpec = SPEC
    effect: Effect = "none"

    async def run(self, arguments: Mapping[str, Any], place: Place) -> Envelope:
        if place.recall is None:
            raise Refused("unavailable", "There is no earlier conversation to recall here.")
        return success({"text": await asyncio.to_thread(place.recall, arguments)})
