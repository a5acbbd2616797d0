"""A local server that speaks the providers' protocols, for tests through the real SDKs.

    with WireServer("Hello.", Http.rate_limited(retry_after=0.01), say("Hello again.")) as server:
        model = Anthropic("claude-x", api_key="k", base_url=server.url)
        …
        assert server.requests[0].body["messages"] == …

It serves `POST /v1/chat/completions`, `/v1/responses`, `/v1/messages` and `/v1/messages/count_tokens` on
127.0.0.1, refuses what the provider would refuse (in the provider's error shape), and answers from a script:
strings and lines as for the scripted model, `Http` answers, and `Broken` streams. It streams where it is
asked to, and answers in one piece otherwise.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, TypeAlias, cast

import msgspec

from refold.messages import Assistant
from refold.models.scripted import ScriptedReply, as_line
from refold.testing import wire_streams as streams
from refold.testing import wire_whole as whole
from refold.testing.validators import validate_anthropic, validate_openai, validate_responses
from refold.text.lenient_json import JsonObject


class Http(msgspec.Struct, frozen=True):
    """An answer that is no stream."""

    status: int
    body: JsonObject | str
    headers: Mapping[str, str] = {}

    @classmethod
    def error(cls, status: int, message: str, kind: str = "invalid_request_error", **headers: str) -> Http:
        """An error in the shape that both providers share."""
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        return cls(status, {"type": "error", "error": {"type": kind, "message": message}}, named)

    @classmethod
    def rate_limited(cls, retry_after: float | str) -> Http:
        text = "Rate limit reached for requests"
        return cls.error(429, text, "rate_limit_error", retry_after=str(retry_after))

    @classmethod
    def overloaded(cls) -> Http:
        return cls.error(529, "Overloaded", "overloaded_error")


class Broken(msgspec.Struct, frozen=True):
    """A stream that begins well. After what was said: the connection is `reset`, a `malformed` piece of JSON
    or a `misshapen` object comes, an `error` event comes, or nothing comes any more (`stall`). `unended`: the
    reply is whole, and the stream stays open all the same."""

    how: Literal["reset", "malformed", "misshapen", "error", "stall", "unended"]
    said: ScriptedReply = ScriptedReply()
    kind: str = "overloaded_error"
    text: str = "Overloaded"


WireAnswer: TypeAlias = "str | Assistant | ScriptedReply | Http | Broken"


class Seen(msgspec.Struct, frozen=True):
    """A request that came, with the bytes of its body."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: JsonObject


class WireServer:
    """A context manager. `script` answers come in order, after them what `then` makes of the body of a
    request; without it, a request too many is answered with 500 and makes leaving the block fail. `url` is
    Anthropic's base address, `v1` OpenAI's."""

    def __init__(
        self, *script: WireAnswer, then: Callable[[JsonObject], WireAnswer] | None = None, tokens: int = 42
    ) -> None:
        self.requests: list[Seen] = []
        self.problems: list[str] = []
        """What the validators had against the requests."""
        self.tokens = tokens
        """What the counting endpoint answers."""
        self.hung_up = threading.Event()
        """Set when a client closed the connection of a stalled stream."""
        self._script = list(script)
        self._then = then
        self._lock = threading.Lock()
        self._unexpected = 0
        self._done = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def v1(self) -> str:
        return f"{self.url}/v1"

    @property
    def bodies(self) -> list[JsonObject]:
        return [seen.body for seen in self.requests]

    def __enter__(self) -> WireServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._done.set()
        self._server.shutdown()
        self._server.server_close()
        if kind is None and self._unexpected:
            raise AssertionError(f"{self._unexpected} requests found no answer in the server's script")

    def see(self, seen: Seen) -> Http | None:
        """Note the request; the refusal if it is malformed."""
        problems = _problems(seen.path, _settled(seen))
        with self._lock:
            self.requests.append(seen)
            self.problems += problems
        return Http.error(400, "; ".join(problems)) if problems else None

    def next(self, seen: Seen) -> WireAnswer:
        with self._lock:
            if self._script:
                return self._script.pop(0)
            if self._then is not None:
                return self._then(seen.body)
            self._unexpected += 1
        return Http.error(500, "the server's script has no answer left", "api_error", x_should_retry="false")

    def wait(self, connection: socket.socket) -> None:
        """Stall until the client hangs up or the test is over."""
        connection.settimeout(0.02)
        while not self._done.is_set():
            try:
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.hung_up.set()


def _settled(seen: Seen) -> JsonObject:
    """The body without what a header allows: system messages in the middle of an Anthropic conversation."""
    if "mid-conversation-system" not in seen.headers.get("anthropic-beta", ""):
        return seen.body
    messages: list[JsonObject] = seen.body.get("messages") or []
    said = [message for message in messages if message.get("role") != "system"]
    return {**seen.body, "messages": said}


def _problems(path: str, body: JsonObject) -> list[str]:
    found = [] if isinstance(body.get("model"), str) else ["model: field required"]
    match path:
        case "/v1/chat/completions":
            return found + validate_openai(body.get("messages") or [], body.get("tools"))
        case "/v1/responses":
            return found + validate_responses(body.get("input") or [])
        case "/v1/messages":
            if not isinstance(body.get("max_tokens"), int):
                found.append("max_tokens: field required")
            return found + validate_anthropic(body)
        case "/v1/messages/count_tokens":
            unwanted = [key for key in ("max_tokens", "stream", "temperature") if key in body]
            found += [f"{key}: extra inputs are not permitted" for key in unwanted]
            return found + validate_anthropic(body)
        case _:
            return [f"no such address: {path}"]


_ANSWERS = {
    "/v1/chat/completions": (streams.chat, whole.chat),
    "/v1/responses": (streams.responses, whole.responses),
    "/v1/messages": (streams.messages, whole.messages),
}
"""Path → how a line is answered: as a stream, as a whole."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: WireServer

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        seen = Seen(path, {key.lower(): value for key, value in self.headers.items()}, raw, json.loads(raw))
        refusal = self.owner.see(seen)
        if refusal is not None:
            self._plain(refusal)
        elif path.endswith("/count_tokens"):
            self._plain(Http(200, {"input_tokens": self.owner.tokens}))
        else:
            self._answer(seen, self.owner.next(seen))

    def _answer(self, seen: Seen, answer: WireAnswer) -> None:
        if isinstance(answer, Http):
            return self._plain(answer)
        broken = answer if isinstance(answer, Broken) else None
        line = broken.said if broken else as_line(cast("str | Assistant | ScriptedReply", answer))
        if broken and broken.how != "unended":
            line = msgspec.structs.replace(line, cut=True)
        if not seen.body.get("stream"):
            return self._whole(line, seen)
        stream, _ = _ANSWERS[seen.path]
        self._stream(stream(line, seen.body["model"], len(self.owner.requests)))
        if broken:
            self._break(broken, seen.path)
        elif line.stalls:
            self.owner.wait(self.connection)
            self.close_connection = True
        if not self.close_connection:
            self.wfile.write(b"0\r\n\r\n")
        return None

    def _whole(self, line: ScriptedReply, seen: Seen) -> None:
        if not streams.ends(line):
            return self._plain(Http.error(400, "this server breaks off only where it streams"))
        _, answer = _ANSWERS[seen.path]
        return self._plain(Http(200, answer(line, seen.body["model"], len(self.owner.requests))))

    def _plain(self, answer: Http) -> None:
        page = isinstance(answer.body, str)
        data = answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Type", "text/html" if page else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, pieces: Iterator[streams.StreamPiece]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event, payload in pieces:
            self._event(event, payload if isinstance(payload, str) else json.dumps(payload))

    def _event(self, event: str | None, data: str) -> None:
        head = f"event: {event}\n" if event else ""
        block = f"{head}data: {data}\n\n".encode()
        self.wfile.write(f"{len(block):x}\r\n".encode() + block + b"\r\n")
        self.wfile.flush()

    def _break(self, broken: Broken, path: str) -> None:
        anthropic = path == "/v1/messages"
        match broken.how:
            case "reset":
                # Lingering for zero seconds makes closing a reset instead of an end.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
            case "malformed":
                self._event("content_block_delta" if anthropic else None, '{"choices": [{"del')
            case "misshapen":
                self._event(*_MISSHAPEN[path])
            case "error":
                error = {"type": broken.kind, "message": broken.text}
                body = {"type": "error", "error": error}
                self._event("error" if anthropic else None, json.dumps(body))
            case "stall" | "unended":
                self.owner.wait(self.connection)
                self.close_connection = True


_MISSHAPEN: dict[str, tuple[str | None, str]] = {
    "/v1/chat/completions": (None, '{"choices": [{"delta": {"content": {"nested": true}}}]}'),
    "/v1/responses": (None, '{"type": "response.output_text.delta", "delta": {"nested": true}}'),
    "/v1/messages": ("content_block_delta", '{"type": "content_block_delta", "index": 99, "delta": {}}'),
}
