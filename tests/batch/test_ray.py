"""The same contract on Ray, and the commands on it (`make test-ray`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from refold import batch
from refold.batch import Executor
from refold.errors import StorageError
from tests.batch.contract import ExecutorContract

if find_spec("ray") is None:
    pytest.skip("ray is not installed: `make test-ray` runs this", allow_module_level=True)


class TestRay(ExecutorContract):
    @pytest.fixture(scope="class")
    @classmethod
    def on(cls) -> Iterator[Executor]:
        with batch.opened("ray") as on:
            yield on


def test_a_cluster_that_is_not_there_is_said_in_one_sentence() -> None:
    with (
        pytest.raises(StorageError, match=r"no Ray at ray://127\.0\.0\.1:1"),
        batch.opened("ray://127.0.0.1:1"),
    ):
        pass
