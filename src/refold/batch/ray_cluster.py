"""Runs jobs on Ray: all cores of this machine or of a cluster (extra `ray`).

Ray's own retries are off, so that `Batch.run` counts attempts the same way everywhere. Ray is imported when
this executor is opened.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from refold.batch import Return, Work, attempt_job
from refold.errors import StorageError, UsageError

QUEUED = 2
"""Queued calls per core, so that no core waits for its next call."""
TRIES = 3
"""Attempts to connect to a cluster. Its proxy forks a server per client while gRPC threads run, and sometimes
that server dies at once (`ConnectionAbortedError`); the next one works."""
PASSED_VARIABLES = "REFOLD_"
"""Environment variables with this prefix are passed to workers: settings of presets, no provider keys."""


class OnRay:
    def __init__(self, address: str) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ModuleNotFoundError as error:
            raise UsageError(f'Ray needs `pip install "refold[ray]"` ({error.name} is missing)') from None
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
        settings = {name: value for name, value in os.environ.items() if name.startswith(PASSED_VARIABLES)}
        given: dict[str, Any] = {"runtime_env": {"env_vars": settings}} if settings else {}
        if address == "local":
            given |= {"include_dashboard": False, "log_to_driver": False}
        self._connect(address, given)
        self._call = self._ray.remote(num_cpus=1, max_retries=0)(attempt_job)
        self._running: dict[Any, None] = {}
        first = self._returned(self._call.remote(str, ""))
        if first.error is not None and not first.died:
            self._ray.shutdown()
            raise StorageError(f"the workers of this Ray cluster fail: {first.error}")
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        self.room = QUEUED * max(cores, 1)

    def _connect(self, address: str, given: dict[str, Any]) -> None:
        for left in reversed(range(TRIES)):
            try:
                self._ray.init(address, logging_level=logging.CRITICAL, **given)
            except Exception as error:
                if left and isinstance(error, ConnectionAbortedError):
                    continue
                hint = "" if address == "local" else "; one that wants a token needs RAY_AUTH_MODE=token"
                raise StorageError(f"no Ray at {address} ({type(error).__name__}: {error}){hint}") from error
            else:
                return

    def start(self, work: Work, argument: Any) -> Any:
        place = self._call.remote(work, argument)
        self._running[place] = None
        return place

    def ended(self) -> Iterable[tuple[Any, Return]]:
        ready, _ = self._ray.wait(list(self._running), num_returns=1)
        for place in ready:
            del self._running[place]
            yield place, self._returned(place)

    def _returned(self, place: Any) -> Return:
        errors = self._ray.exceptions
        try:
            return self._ray.get(place)
        except errors.RayTaskError as error:  # it could not even begin: something is not installed there
            return Return(error=f"{type(error.cause).__name__}: {error.cause}")
        except errors.RayError as error:
            return Return(error=f"{type(error).__name__}: {str(error).splitlines()[0]}", died=True)

    def close(self) -> None:
        for place in self._running:
            self._ray.cancel(place, force=True)
        self._ray.shutdown()


def open_executor(rest: str) -> OnRay:
    """Empty: a new Ray on this machine. `//HOST:PORT`: a cluster, through its client server. `//auto`: the
    cluster this machine belongs to."""
    if not rest:
        return OnRay("local")
    if not rest.startswith("//") or len(rest) < 3:
        raise UsageError(f"'ray:{rest}' is not a cluster address: use ray://HOST:PORT")
    return OnRay("auto" if rest == "//auto" else f"ray:{rest}")
