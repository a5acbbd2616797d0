"""A check of everything that is set outside of the code, before a command does anything."""

from __future__ import annotations

import os

from refold.errors import SettingError
from refold.registry.configuration import load_configuration


def check_settings() -> None:
    """Raises `SettingError` for a wrong value in the configuration file or in a variable for a preset."""
    config = load_configuration()
    if not any(name.startswith("REFOLD_") for name in os.environ):
        return
    from refold import presets
    from refold.registry.models import preset

    for name in presets.NAMES:
        if any(variable.startswith(f"REFOLD_{name.upper()}_") for variable in os.environ):
            try:
                preset(name, config=config)
            except SettingError as error:
                text = str(error).removeprefix(f"{error.key}: ")
                raise SettingError(f"REFOLD_{name}_{error.key}".upper(), text) from None
