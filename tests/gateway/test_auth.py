"""Who may come in."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict

from refold.errors import SettingError
from refold.gateway.auth import Auth
from refold.registry.configuration import GatewaySettings
from refold.stores import open_store
from refold.testing.wire import WireServer
from tests.gateway.kit import gateway, run, upstream

ROOT = Path(__file__).resolve().parents[2]
KEYS = {
    "ann": hashlib.sha256(b"secret-of-ann").hexdigest(),
    "bob": hashlib.sha256(b"secret-of-bob").hexdigest(),
}
PATH = "/v1/chat/completions"
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hello world of contents"}]}'


async def echo(request: web.Request) -> web.Response:
    return web.json_response({name.lower(): value for name, value in request.headers.items()})


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Host": "127.0.0.1.evil.example"},
    ],
)
def test_without_keys_only_this_machine_is_served(headers: dict[str, str]) -> None:
    async def work() -> None:
        async with upstream(echo) as url, gateway(url) as (_, client):
            for path in (PATH, "/v1/messages", "/v1/nowhere"):
                async with client.post(path, data=BODY, headers=headers) as reply:
                    assert reply.status == 403
            async with client.post(PATH, data=BODY, headers={"Origin": "http://localhost:3"}) as reply:
                assert reply.status == 200

    run(work)


def test_others_than_this_machine_need_keys() -> None:
    with pytest.raises(SettingError, match="keys"):
        Auth(GatewaySettings(host="0.0.0.0"))
    Auth(GatewaySettings(host="0.0.0.0", keys=KEYS))
    with pytest.raises(SettingError, match="SHA-256"):
        Auth(GatewaySettings(keys={"ann": "plain"}))
    with pytest.raises(SettingError, match="65535"):
        Auth(GatewaySettings(port=99_999))


def test_nobody_gets_past_a_key_and_the_upstream_never_sees_it() -> None:
    async def work() -> None:
        os.environ["UP_KEY"] = "of-the-upstream"
        try:
            async with (
                upstream(echo) as url,
                gateway(url, keys=KEYS, upstream_key_env="UP_KEY") as (_, client),
            ):
                chance = random.Random(3)
                wrong = [
                    "",
                    "Bearer",
                    "Bearer ",
                    "Bearer x",
                    KEYS["ann"],
                    f"Bearer {KEYS['ann']}",
                    "secret-of-an",
                ]
                wrong += [
                    "".join(chance.choice("abcé :") for _ in range(chance.randrange(40))) for _ in range(60)
                ]
                for given in wrong:
                    for name in ("Authorization", "x-api-key", "x-refold-key"):
                        async with client.post(PATH, data=BODY, headers={name: given}) as reply:
                            assert reply.status == 401, given
                for name, given in (
                    ("Authorization", "Bearer secret-of-ann"),
                    ("x-api-key", "secret-of-bob"),
                ):
                    async with client.post(PATH, data=BODY, headers={name: given}) as reply:
                        seen = await reply.json()
                    assert seen["authorization"] == "Bearer of-the-upstream"
                    assert "secret-of" not in json.dumps(seen)
                async with client.get("/metrics") as reply:
                    assert reply.status == 401
            async with upstream(echo) as url, gateway(url, keys=KEYS) as (_, client):
                for name, given in (
                    ("Authorization", "Bearer secret-of-ann"),
                    ("x-api-key", "secret-of-bob"),
                ):
                    other = {"x-api-key": "own", "Authorization": "own", name: given}
                    async with client.post(PATH, data=BODY, headers=other) as reply:
                        seen = json.dumps(await reply.json())
                    assert "secret-of" not in seen and '"own"' not in seen
                    both = {**other, "x-refold-key": "secret-of-ann", "api-key": "secret-of-ann"}
                    async with client.post(PATH, data=BODY, headers=both) as reply:
                        seen = json.dumps(await reply.json())
                    assert "secret-of" not in seen and '"own"' in seen
        finally:
            del os.environ["UP_KEY"]

    run(work)


@pytest.mark.parametrize(
    "headers",
    [
        [("Authorization", "Bearer secret-of-ann"), ("x-api-key", "secret-of-ann")],
        [("AUTHORIZATION", "bearer  secret-of-ann "), ("X-API-KEY", "secret-of-ann")],
        [("authorization", "Bearer secret-of-ann"), ("x-api-key", "secret-of-bob")],
        [("x-api-key", "secret-of-ann"), ("authorization", "Basic c2VjcmV0LW9mLWFubg==")],
        [("x-refold-key", "secret-of-ann"), ("authorization", "Bearer secret-of-ann")],
        [("X-Refold-Key", "secret-of-ann"), ("x-api-key", "secret-of-bob"), ("api-key", "secret-of-ann")],
        [("authorization", "Bearer secret-of-ann"), ("authorization", "Bearer secret-of-bob")],
    ],
)
def test_keys_of_the_gateway_go_upstream_in_no_header(headers: list[tuple[str, str]]) -> None:
    async def work() -> None:
        async with (
            upstream(echo) as url,
            gateway(url, keys=KEYS) as (_, client),
            client.post(PATH, data=BODY, headers=CIMultiDict(headers)) as reply,
        ):
            seen = json.dumps(await reply.json())
            assert reply.status == 200
        assert "secret-of" not in seen and "c2VjcmV0" not in seen

    run(work)


def test_sessions_of_one_owner_are_not_those_of_another(tmp_path: Path) -> None:
    async def work() -> None:
        async with gateway(server.url, keys=KEYS, store=f"sqlite:{tmp_path / 'a.db'}") as (_, client):
            for key in ("secret-of-ann", "secret-of-bob"):
                headers = {"x-refold-key": key, "X-Refold-Session": "same"}
                async with client.post(PATH, data=BODY, headers=headers) as reply:
                    await reply.read()
        opened = open_store(f"sqlite:{tmp_path / 'a.db'}").store
        assert sorted(info.id[:9] for info in opened.sessions()) == ["ann.same.", "bob.same."]

    with WireServer("a", "b") as server:
        run(work)


def test_rates_sizes_and_numbers_are_limited() -> None:
    waiting = asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        await waiting.wait()
        return web.Response(text="ok")

    async def work() -> None:
        given = {"requests_per_minute": 4, "concurrent": 2, "largest": 5000}
        async with upstream(slow) as url, gateway(url, **given) as (_, client):
            async with client.post("/v1/messages", data=b"x" * 6000) as reply:
                assert (reply.status, (await reply.json())["type"]) == (413, "error")
            held = [asyncio.ensure_future(client.post(PATH, data=BODY)) for _ in range(2)]
            await asyncio.sleep(0.1)
            async with client.post(PATH, data=BODY) as reply:
                assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            async with client.post(PATH, data=BODY) as reply:
                assert reply.status == 429 and int(reply.headers["retry-after"]) > 0
            waiting.set()
            assert [reply.status for reply in await asyncio.gather(*held)] == [200, 200]

    run(work)


def test_health_figures_and_a_log_without_contents() -> None:
    async def work() -> None:
        async with gateway(server.url) as (made, client):
            async with client.get("/health") as reply:
                assert await reply.json() == {"status": "ok"}
            async with client.post(PATH, data=BODY, headers={"Authorization": "Bearer hidden"}) as reply:
                await reply.read()
            async with client.post("/v1/secret-path", data=BODY) as reply:
                assert reply.status == 404
            async with client.get("/metrics") as reply:
                text = await reply.text()
            lines: list[str] = made.log_lines  # pyright: ignore
        assert 'what="requests"} 2' in text and 'what="pass"} 1' in text
        assert [json.loads(line)["status"] for line in lines] == [200, 404]
        for word in ("hello", "hidden", "secret-path"):
            assert word not in "".join(lines)

    with WireServer("a") as server:
        run(work)


def test_hostile_requests_are_never_our_fault() -> None:
    async def answer(request: web.Request) -> web.Response:
        await request.read()
        return web.json_response({})

    deep = b'{"model":"m","messages":' + b"[" * 5000 + b"]" * 5000 + b"}"
    bodies = [b"", b"null", b"[]", b'"x"', b"\xff\xfe", b"{}", deep, b'{"model": 7, "messages": [7]}']
    bodies += [
        b'{"model":"m","messages":[{"role":"user","content":%s}]}' % c
        for c in (b"7", b"null", b'[{"type":7}]', b"[[]]")
    ]
    bodies += [
        b'{"model":"m","input":[{"type":"message"}],"messages":[{"content":{}}]}',
        b'{"model":"m","input":[null]}',
    ]

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, window=10) as (_, client):
            for body in bodies:
                for path in (PATH, "/v1/responses", "/v1/messages"):
                    async with client.post(
                        path, data=body, headers={"X-Refold-Session": "../../etc \u00e9"}
                    ) as reply:
                        assert reply.status in (200, 400), (body, reply.status, await reply.text())

    run(work)


@pytest.mark.slow
def test_the_command_says_its_address_first_and_ends_what_is_under_way(tmp_path: Path) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(5):
            await response.write(b"x")
            await asyncio.sleep(0.1)
        return response

    async def work() -> None:
        config = tmp_path / "refold.toml"
        async with upstream(slow) as url:
            config.write_text(
                f'[gateway]\nupstream = "{url}"\nport = 0\nstore = "sqlite:{tmp_path / "a.db"}"\n'
            )
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "refold", "serve", "--config", str(config), "--window", "50000",
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            )  # fmt: skip
            assert process.stdout
            address = (await process.stdout.readline()).decode().strip()
            async with aiohttp.ClientSession() as client, client.post(f"{address}{PATH}", data=BODY) as reply:
                await reply.content.readany()
                process.send_signal(signal.SIGTERM)
                assert await reply.read() == b"xxxx"
            assert await process.wait() == 0

    run(work)


@pytest.mark.slow
def test_a_place_where_nobody_can_listen_is_a_sentence(tmp_path: Path) -> None:
    config = tmp_path / "refold.toml"
    keys = f'[gateway.keys]\nann = "{KEYS["ann"]}"\n'
    config.write_text(
        f'[gateway]\nupstream = "http://127.0.0.1:1"\nstore = "memory:"\nhost = "8.8.8.8"\nport = 9\n{keys}'
    )
    done = subprocess.run(
        [sys.executable, "-m", "refold", "serve", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode != 0 and "cannot listen on 8.8.8.8 port 9" in done.stderr
    assert "Traceback" not in done.stderr and "Unclosed" not in done.stderr, done.stderr


def _basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.sample(15)
@pytest.mark.parametrize(
    "value",
    [
        "secret-of-ann",
        "Bearer secret-of-ann",
        "a=1; key=secret-of-ann; b=2",
        "prefix-secret-of-ann-suffix",
        "for=1.2.3.4;token=secret-of-bob",
        'Token token="secret-of-bob"',
        "secret%2Dof%2Dann",
        f"Basic {_basic('ann:secret-of-ann')}",
        f"Basic {_basic('bob:secret-of-bob')}",
        f"Basic {_basic('secret-of-ann:')}",
        '{"key": "secret-of-bob"}',
    ],
)
@pytest.mark.parametrize("name", ["x-other", "cookie", "forwarded", "proxy-x"])
def test_no_header_takes_a_key_of_the_gateway_upstream_whatever_else_it_says(name: str, value: str) -> None:
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(str(dict(request.headers)))
        return web.json_response({})

    async def work() -> None:
        async with upstream(answer) as url, gateway(url, keys=KEYS) as (_, client):
            given = {"x-refold-key": "secret-of-ann", name: value, "x-kept": "Basic words, of=mine; YWJj"}
            async with client.post(PATH, data=BODY, headers=given) as reply:
                assert reply.status == 200

    run(work)
    assert value not in seen[0] and "secret" not in seen[0]
    assert "of=mine" in seen[0]
