"""What all tests share: no deadlines on busy machines, no home directory, no keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("refold", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("refold")


@pytest.fixture(autouse=True)
def _nobodys_machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tests see an empty home directory and no configuration of whoever runs them."""
    if request.node.get_closest_marker("live"):
        return
    patch = pytest.MonkeyPatch()
    request.addfinalizer(patch.undo)
    home: Path = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        patch.setenv(name, str(home))
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "REFOLD_DATABASE",
    ):
        patch.delenv(name, raising=False)
