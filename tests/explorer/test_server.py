"""Who gets an answer from the explorer, and which."""

from __future__ import annotations

import asyncio
import json
import re
from importlib.resources import files
from pathlib import Path

import aiohttp
import pytest

from refold import Session
from refold import messages as m
from refold.entries import Edit, Fold
from refold.explorer.server import TOKEN_HEADER
from refold.mcp.collections import Collection
from refold.protocols import SessionInfo
from refold.registry.sessions import stored
from refold.stores import open_store
from tests.compare.hostile import hostile_session
from tests.compare.sessions import agent_session
from tests.explorer.kit import collection_list, database, own, page, put, run, synced_collection

KEY = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2dF4gH6"


def test_without_the_token_nothing_is_told(tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    put(store, agent_session(1), id="private")

    async def work() -> None:
        async with page(own(store)) as here:
            root = f"http://127.0.0.1:{here.explorer.port}"
            token = here.explorer.token
            for path in (
                "/",
                "/api/sessions",
                f"/{token[:-1]}/api/sessions",
                f"/{token}x/",
                f"//{token}/",
                "/app.js",
                f"/x/{token}/",
            ):
                async with here.client.get(root + path) as reply:
                    assert reply.status == 403, path
                    assert "private" not in await reply.text()
            async with here.client.get(here.explorer.url) as reply:
                assert reply.status == 200

    run(work)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "script"},
    ],
)
def test_another_host_or_origin_gets_nothing(headers: dict[str, str]) -> None:
    async def work() -> None:
        async with page(own(open_store("memory:").store)) as here:
            for what in ("", "app.js", "api/sessions", "api/events"):
                async with here.client.get(here.explorer.url + what, headers=headers) as reply:
                    assert reply.status == 403

    run(work)


def test_answers_may_not_be_embedded_read_by_others_or_run_more_than_the_page(tmp_path: Path) -> None:
    async def work() -> None:
        async with page(own(open_store("memory:").store)) as here:
            for what in ("", "style.css", "api/sessions", "api/nothing", "api/session?name=a:b", "../"):
                async with here.client.get(here.explorer.url + what) as reply:
                    policy = reply.headers["Content-Security-Policy"]
                    assert "default-src 'none'" in policy and "script-src 'self'" in policy
                    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
                    assert not [name for name in reply.headers if name.lower().startswith("access-control")]
                    assert reply.headers["X-Content-Type-Options"] == "nosniff"
                    assert reply.headers["Cache-Control"] == "no-store"
                    assert reply.headers["Referrer-Policy"] == "no-referrer"

    run(work)


def test_a_change_is_a_post_that_repeats_the_token(tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    session = put(store, agent_session(2), id="one")
    first = session.path[1].id
    asked = {"name": "refold:one", "do": "pin", "target": first}

    async def work() -> None:
        async with page(own(store)) as here:
            url, token = f"{here.explorer.url}api/change", here.explorer.token
            origin = {"Origin": f"http://127.0.0.1:{here.explorer.port}"}
            for headers in (
                {},
                origin,
                {TOKEN_HEADER: token},
                {**origin, TOKEN_HEADER: token[1:]},
                {"Origin": "http://x", TOKEN_HEADER: token},
            ):
                async with here.client.post(url, json=asked, headers=headers) as reply:
                    assert reply.status == 403
            async with here.client.get(url, params=asked) as reply:
                assert reply.status == 405
            assert stored(store, "one").pins == ()
            assert (await here.change(**asked))[0] == 200
            assert stored(store, "one").pins == (first,)
            assert (await here.change(**{**asked, "do": "unpin"}))[0] == 200
            assert stored(store, "one").pins == ()
            status, told = await here.change(**{**asked, "do": "forget"})
            assert status == 400 and "undo, redo, pin and unpin" in told["error"]
            for body in (b"{", b"[1]", b'{"do": 3}', b""):
                async with here.client.post(url, data=body, headers={**origin, TOKEN_HEADER: token}) as reply:
                    assert reply.status == 400

    run(work)


def test_folds_are_undone_and_redone_and_the_log_remembers(tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    put(store, agent_session(12), id="one", fold_at=(40,))

    async def work() -> None:
        async with page(own(store)) as here:
            before = await here.get("session", name="refold:one")
            [fold] = before["folds"]
            assert fold["active"] and fold["after"] < fold["before"]
            assert (await here.change(name="refold:one", do="undo", target=fold["id"]))[0] == 200
            after = await here.get("session", name="refold:one")
            assert after["folds"][0]["undone"] and after["tokens"] > before["tokens"]
            assert (await here.change(name="refold:one", do="redo"))[0] == 200
            assert (await here.get("session", name="refold:one"))["tokens"] == before["tokens"]
            status, told = await here.change(name="refold:one", do="redo")
            assert status == 400 and "no fold to redo" in told["error"]

    run(work)


def test_sessions_of_another_program_are_only_read(tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    folder.mkdir()
    file = folder / "a.jsonl"
    file.write_text(
        json.dumps([{"role": "user", "content": "find the whale"}, {"role": "assistant", "content": "here"}])
    )
    file.rename(folder / "a.json")
    collection = synced_collection(folder, tmp_path / "found.db")

    async def work() -> None:
        assert collection.synced
        collection.synced.refresh()
        async with page(collection_list(collection)) as here:
            [row] = (await here.get("sessions"))["rows"]
            told = await here.get("session", name=row["name"])
            assert told["writable"] is False and "forget" not in told["commands"]
            assert str(folder / "a.json") in told["commands"]["export"]
            status, refused = await here.change(name=row["name"], do="pin", target=told["points"][0]["id"])
            assert status == 400 and "read-only" in refused["error"]
            assert (await here.get("search", q="whale"))["found"][0]["name"] == row["name"]

    before = (folder / "a.json").read_bytes()
    run(work)
    assert (folder / "a.json").read_bytes() == before


def test_what_a_session_says_is_never_markup_and_keeps_its_secrets(tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    hostile = hostile_session()
    hostile.append(m.user(f"the key is {KEY}"))
    put(store, hostile, id="<script>x</script>", fold_at=(40,))

    async def work() -> None:
        async with page(own(store)) as here:
            texts: list[str] = []
            name = "refold:<script>x</script>"
            told = await here.get("session", name=name)
            last = len(told["points"]) - 1
            asked = [
                ("sessions", {}),
                ("search", {"q": "key"}),
                ("session", {"name": name}),
                ("view", {"name": name, "point": last}),
            ]
            asked += [
                ("message", {"name": name, "point": point, "at": last})
                for point in range(last + 1)
                if told["points"][point].get("role")
            ]
            asked += [("fold", {"name": name, "id": fold["id"]}) for fold in told["folds"]]
            asked += [
                ("what_if", {"name": name, "preset": "refold", "budget": "2k"}),
                ("summaries", {"name": name}),
            ]
            for what, values in asked:
                async with here.client.get(f"{here.explorer.url}api/{what}", params=values) as reply:
                    assert reply.status == 200 and reply.content_type == "application/json", (
                        what,
                        await reply.text(),
                    )
                    texts.append(await reply.text())
            assert all(KEY not in text and KEY[10:30] not in text for text in texts)
            assert not any(
                ord(char) < 32 and char not in "\n\t"
                for text in texts
                for char in json.dumps(json.loads(text), ensure_ascii=False)
            )

    run(work)


def test_a_locked_or_damaged_store_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    good, bad = database(tmp_path / "good.db"), database(tmp_path / "bad.db")
    put(good, agent_session(1), id="fine")
    put(bad, agent_session(1), id="lost")
    over = collection_list(Collection("refold", good), Collection("refold-2", bad))

    def spoil() -> None:
        bad.close()
        (tmp_path / "bad.db").write_bytes(b"this is no database" * 500)
        for rest in tmp_path.glob("bad.db-*"):
            rest.unlink()

    async def work() -> None:
        async with page(over) as here:
            assert len((await here.get("sessions"))["rows"]) == 2
            spoil()
            told = await here.get("sessions")
            assert "bad.db" in told["errors"]["refold-2"]
            assert [row["name"] for row in told["rows"] if row["client"] == "refold"] == ["refold:fine"]
            status, refused = await here.fails("session", name="refold-2:lost")
            assert status == 500 and refused["kind"] == "damaged", refused
            assert (await here.get("session", name="refold:fine"))["points"]
            assert (await here.get("search", q="login"))["found"][0]["name"] == "refold:fine"

    run(work)


def test_a_store_that_is_written_too_long_by_others_refuses_a_change_and_goes_on(tmp_path: Path) -> None:
    store, other = database(tmp_path / "a.db"), database(tmp_path / "a.db")
    store.timeout = 0.1  # type: ignore[attr-defined]
    session = put(store, agent_session(1), id="one")

    async def work() -> None:
        async with page(own(store)) as here:
            with other.writing():  # type: ignore[attr-defined]
                status, told = await here.change(name="refold:one", do="pin", target=session.path[1].id)
                assert status == 503 and told["kind"] == "closed" and "another process" in told["error"]
                assert (await here.get("session", name="refold:one"))["points"], "reading goes on"
            assert (await here.change(name="refold:one", do="pin", target=session.path[1].id))[0] == 200

    run(work)


def test_damaged_entries_are_named(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    store = open_store(f"jsonl:{file}").store
    put(store, agent_session(1), id="one")
    store.close()
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3] = b'{"type":"message","id":"broken\n'
    file.write_bytes(b"".join(lines))

    async def work() -> None:
        async with page(own(open_store(f"jsonl:{file}").store)) as here:
            [row] = (await here.get("sessions"))["rows"]
            told = await here.get("session", name=row["name"])
            assert told["problems"] and any(point["kind"] == "hole" for point in told["points"])

    run(work)


def test_sessions_appear_and_grow_while_one_looks(tmp_path: Path) -> None:
    store, writer = database(tmp_path / "a.db"), database(tmp_path / "a.db")
    put(store, agent_session(1), id="old")

    async def work() -> None:
        async with page(own(store), look_seconds=0.05) as here:
            seen = await here.get("session", name="refold:old")
            async with here.client.get(
                f"{here.explorer.url}api/events", timeout=aiohttp.ClientTimeout(total=20)
            ) as stream:
                assert stream.content_type == "text/event-stream"
                await here.get("sessions")
                session = await asyncio.to_thread(stored, writer, "old")
                await asyncio.to_thread(session.append, m.user("and one more"))
                await asyncio.to_thread(put, writer, agent_session(1), id="new")
                names: set[str] = set()
                async for line in stream.content:
                    if line.startswith(b"data: ") and line != b"data: {}\n":
                        names |= {row["name"] for row in json.loads(line[6:])["rows"]}
                    if names == {"refold:old", "refold:new"}:
                        break
            points = seen["points"]
            news = await here.get("session", name="refold:old", start=len(points), last=points[-1]["id"])
            assert news["start"] == len(points) and [one["about"] for one in news["points"]] == [
                "and one more"
            ]
            whole = await here.get("session", name="refold:old", start=len(points), last="another")
            assert whole["start"] == 0 and len(whole["points"]) == len(points) + 1

    run(work)


def test_questions_that_make_no_sense_are_answered(tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    put(store, agent_session(1), id="one")

    async def work() -> None:
        async with page(own(store)) as here:
            one = {"name": "refold:one"}
            for what, values, status in (
                ("session", {}, 404),
                ("session", {"name": "refold:none"}, 404),
                ("session", {"name": "nowhere:one"}, 404),
                ("session", {"name": "../../etc/passwd"}, 404),
                ("session", {**one, "leaf": "none"}, 404),
                ("session", {**one, "start": "x"}, 400),
                ("view", {**one, "point": "9999"}, 400),
                ("view", {**one, "point": "x"}, 400),
                ("message", {**one, "point": "-1", "at": "0"}, 400),
                ("fold", {**one, "id": "none"}, 404),
                ("what_if", {**one, "preset": "nothing"}, 400),
                ("what_if", {**one, "preset": "refold", "budget": "many"}, 400),
                ("what_if", {**one, "preset": "refold", "model": "nobody:x"}, 400),
            ):
                got, told = await here.fails(what, **values)
                assert got == status and told["error"], (what, values, told)
            assert (await here.get("summaries", name="refold:none"))["refold:none"]["error"]

    run(work)


def test_the_page_is_small_and_comes_with_the_package() -> None:
    texts = {one.name: one.read_text("utf-8") for one in files("refold.explorer").joinpath("page").iterdir()}
    assert {"index.html", "style.css", "app.js"} < texts.keys()
    assert sum(len(text.encode()) for text in texts.values()) < 300_000
    for text in texts.values():
        assert "innerHTML" not in text and "insertAdjacent" not in text and " eval(" not in text
        assert "https://" not in text and "style=" not in text and "<script>" not in text
        assert set(re.findall(r'(?:from "\./|src="|href=")([\w.]+)"', text)) <= texts.keys()


@pytest.mark.parametrize(
    ("pauses", "says"),
    [
        # 100,000 tokens become 10,000; $2 a million, a tenth of that from the cache, a quarter more into it.
        ([10], "costs $0.0050 in cache at once, saves $0.0180 with each later request; it has paid after 1 request."),
        # Every other request found the cache expired, and paid for all of its prompt.
        ([10, 600, 10, 600, 10], "costs $0.0050 in cache at once, saves $0.1215 with each later request; it has paid after 1 request."),
        # The cache had expired when the fold was made: nothing in it was lost.
        ([10, 10, 600], "saves $0.2250 in cache at once, saves $0.0180 with each later request."),
    ],
)  # fmt: skip
def test_a_fold_says_what_it_cost_in_cache_and_when_it_has_paid(
    tmp_path: Path, pauses: list[int], says: str
) -> None:
    store = database(tmp_path / "a.db")
    store.create(SessionInfo(id="one"))
    now = [1_000.0]
    session = Session(id="one", store=store, clock=lambda: sum(now))
    session.append(m.user("Go on."))
    for pause in pauses:
        session.append(m.assistant("Done."), model="claude-sonnet-5")
        now.append(pause)
    edit = Edit(session.path[0].id, session.path[0].id, (m.user("Go on, as above."),))
    fold = session.make(Fold, edits=(edit,), preset="refold", tokens_before=100_000, tokens_after=10_000)
    session.append(fold)

    async def work() -> None:
        async with page(own(store)) as here:
            told = await here.get("fold", name="refold:one", id=fold.id)
            assert told["money"] == f"At list prices of claude-sonnet-5: {says}"

    run(work)


@pytest.mark.slow
def test_ten_thousand_sessions_are_listed_in_one_answer() -> None:
    """What rows show beyond the list is not read before it is asked for."""
    store = open_store("memory:").store
    for number in range(10_000):  # none of them is opened
        store.create(SessionInfo(id=f"s{number}", created=number, name=f"title {number}", cwd="/tmp"))

    async def work() -> None:
        async with page(own(store)) as here:
            told = await here.get("sessions")
            assert len(told["rows"]) == 10_000
            assert "tokens" not in told["rows"][0] and "title" not in told["rows"][0]
            assert (await here.get("search", q="title 9876"))["found"][0]["name"] == "refold:s9876"
            asked = [("name", f"refold:s{number}") for number in range(300)]
            async with here.client.get(f"{here.explorer.url}api/summaries", params=asked) as reply:
                assert len(await reply.json()) == 100

    run(work)


def test_an_empty_session_and_an_empty_store_are_shown(tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")

    async def work() -> None:
        async with page(own(store)) as here:
            assert (await here.get("sessions"))["rows"] == []
            await asyncio.to_thread(store.create, SessionInfo(id="empty"))
            told = await here.get("session", name="refold:empty")
            assert told["points"] == [] and told["tokens"] >= 0
            assert len((await here.get("sessions"))["rows"]) == 1

    run(work)


def test_a_fold_of_another_program_claims_nothing(tmp_path: Path) -> None:
    """Its requests and its check are not in the log: no cost is not the same as none known."""
    store = database(tmp_path / "a.db")
    session = put(store, agent_session(2), id="one")
    first, last = session.path[1].id, session.path[4].id
    edit = Edit(first, last, (m.user("a summary"),))
    session.append(
        session.make(Fold, edits=(edit,), preset="claude-code", author="import:claude-code", tokens_before=9)
    )

    async def work() -> None:
        async with page(own(store)) as here:
            [fold] = (await here.get("session", name="refold:one"))["folds"]
            assert fold["foreign"] and fold["dollars"] is None and fold["check"] is None
            told = await here.get("fold", name="refold:one", id=fold["id"])
            assert told["money"] == "" and told["lost"] == [] and told["lines"][0]["text"] == "a summary"

    run(work)


def test_a_page_hears_of_what_another_page_listed_first(tmp_path: Path) -> None:
    store, writer = database(tmp_path / "a.db"), database(tmp_path / "a.db")
    over = own(store)
    assert over.list()["rows"] == [] and over.changes() is None
    put(writer, agent_session(1), id="new")
    assert len(over.list()["rows"]) == 1
    told = over.changes()
    assert told and [row["name"] for row in told["rows"]] == ["refold:new"]
    assert over.changes() is None
