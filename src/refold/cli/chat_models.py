"""Who answers in a conversation, and what is said where nobody is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from refold.protocols import Model
    from refold.registry.configuration import Configuration

NO_MODEL = (
    'No model is configured. Pass --model NAME (such as anthropic:claude-sonnet-5-5) or put model = "NAME" '
    "into the configuration file, with the provider's key in ANTHROPIC_API_KEY or OPENAI_API_KEY."
)

OFFER = (
    "Type /model local:smollm2 for a small model on this machine, /model demo for a scripted demonstration."
)


def named(name: str | None, config: Configuration) -> Model | None:
    """The model of a name (`demo`: a script that comes with the package), or the configuration's; None: there
    is none."""
    from refold import registry

    if name == "demo":
        from importlib.resources import files

        from refold.models.script import parse
        from refold.models.scripted import Scripted

        lines, then = parse(files("refold.data").joinpath("chat_demo.script").read_text("utf-8"), "demo")
        return Scripted(*lines, name="scripted:demo", then=then)
    if name is None and config.model is None:
        return None
    return registry.model(name, config=config)
