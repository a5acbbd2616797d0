"""The explorer as a person uses it, in Chromium at two sizes: `make test-browser` installs what this needs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold import messages as m
from refold.entries import Undo
from refold.explorer.server import Explorer
from refold.explorer.session_list import SessionList
from refold.protocols import SessionInfo
from refold.registry.sessions import stored
from refold.session import Session
from tests.browser import SCHEMES, WIDTHS, browser, new_page
from tests.compare.hostile import hostile_session
from tests.compare.sessions import agent_session, long_session
from tests.explorer.kit import database, own, put

pytestmark = pytest.mark.browser

__all__ = ["browser", "new_page"]
OPENED = "article[data-points]"


class Served:
    """An explorer on a loop of its own: the driver of the browser has the one of this thread."""

    def __init__(self, session_list: SessionList, **given: Any) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.explorer = Explorer(session_list, look_seconds=0.1, **given)
        self._do(self.explorer.__aenter__())
        self.url = self.explorer.url

    def close(self) -> None:
        self._do(self.explorer.__aexit__())
        self.loop.call_soon_threadsafe(self.loop.stop)

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self.loop).result(30)


@pytest.fixture
def opened(new_page: Any) -> Iterator[Any]:
    """A function that opens the page over a store."""
    opened: list[tuple[Served, Any]] = []

    def open_(session_list: SessionList, width: int = 1400, scheme: str = "light", **given: Any) -> Any:
        served = Served(session_list, **given)
        opened.append((served, new_page(served.url, width, scheme)))
        return opened[-1][1]

    yield open_
    for served, page in opened:
        page.close()  # first: it would complain that its server is gone
        served.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = database(tmp_path_factory.mktemp("explorer") / "a.db")
    put(made, long_session(), id="long", fold_at=(30, 60))
    put(made, agent_session(2), id="short")
    branched = put(made, agent_session(2), id="branched")
    ids = [entry.id for entry in branched.path]
    branched.move(ids[3])
    branched.append(m.user("Another way."))
    branched.move(ids[-1])
    return made


def go_to(page: Any, id: str) -> None:
    page.evaluate("(id) => { location.hash = `#/s/${encodeURIComponent('refold:' + id)}`; }", id)
    page.wait_for_selector(OPENED)


def until(page: Any, holds: str) -> None:
    """Wait for it; a page with a policy does not evaluate text by itself."""
    for _ in range(1_000):
        if page.evaluate(holds):
            return
        page.wait_for_timeout(50)
    raise AssertionError(holds)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_screen(opened: Any, store: Any, width: int, scheme: str) -> None:
    page = opened(own(store), width, scheme)
    page.wait_for_selector(".session")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    go_to(page, "long")
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="To the fold before").click()
    page.locator(".point.fold").last.click()
    page.wait_for_selector("dialog[open]")
    assert page.evaluate(
        "document.querySelector('dialog').scrollWidth <= document.querySelector('dialog').clientWidth"
    )


def test_the_slider_shows_what_the_model_saw_at_each_point(opened: Any, store: Any) -> None:
    page = opened(own(store))
    go_to(page, "long")
    session = stored(store, "long")
    slider, place = page.locator("#time"), page.locator(".place")
    assert f"of {len(session.path)}" in place.inner_text()
    slider.fill("3")
    place.get_by_text("Point 4 of").wait_for()
    assert "Point 4 of" in place.inner_text() and "4 messages" in place.inner_text()
    assert page.locator(".legend").inner_text().startswith("4 whole")
    slider.press("ArrowRight")
    place.get_by_text("Point 5 of").wait_for()
    assert "Point 5 of" in place.inner_text() and "Point 5 of" in slider.get_attribute("aria-valuetext")
    page.get_by_role("button", name="To the next fold").click()
    until(page, "/[1-9]\\d* clipped/.test(document.querySelector('.legend').textContent)")
    page.get_by_role("button", name="To the next fold").click()
    until(page, "/[1-9]\\d* as one line/.test(document.querySelector('.legend').textContent)")
    page.get_by_role("listbox", name="What the model sees").press("Home")
    page.locator(".item.f-record").first.wait_for()
    assert page.get_by_role("listbox", name="What the model sees").locator(".f-record").count() >= 1
    for _ in range(3):
        page.get_by_role("button", name="To the fold before").click()
    assert "Point 1 of" in place.inner_text()


def test_the_view_at_the_end_is_the_view_of_the_engine(opened: Any, store: Any) -> None:
    from refold.registry.engine import Engine

    page = opened(own(store))
    go_to(page, "long")
    view = Engine().view(stored(store, "long"))
    assert f": {len(view)} messages, {view.tokens:,} tokens" in page.locator(".place").inner_text()


def test_a_click_shows_the_original_with_what_was_cut_marked(opened: Any, store: Any) -> None:
    page = opened(own(store))
    go_to(page, "long")
    page.locator(".item.f-clipped").last.click()
    dialog = page.get_by_role("dialog")
    dialog.locator("del").first.wait_for()
    assert dialog.locator("mark").count() >= 1
    original, shown = dialog.locator("pre").all_inner_texts()
    assert "compiling unit_" in original and len(shown) < len(original)
    assert dialog.locator(".badge").inner_text() == "clipped"
    dialog.get_by_role("button", name="Its fold").click()
    dialog.get_by_role("heading", name="Ledger").wait_for()
    assert "asked for" in dialog.inner_text() and "no model asked" in dialog.inner_text()
    assert dialog.locator("ul.record .link").count() > 3 and dialog.locator("tbody tr").count() > 3
    page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_undo_redo_pin_and_unpin(opened: Any, tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    put(store, long_session(), id="long", fold_at=(40,))
    page = opened(own(store))
    go_to(page, "long")
    page.get_by_text("Folds (1)").click()
    page.get_by_role("button", name="undo fold 1").click()
    page.get_by_role("button", name="redo fold 1").wait_for()
    assert isinstance(stored(store, "long").path[-1], Undo)
    page.get_by_role("button", name="redo fold 1").click()
    page.get_by_role("button", name="undo fold 1").wait_for()
    first = page.locator(".point.user").last
    first.click()
    page.get_by_role("dialog").get_by_role("button", name="Pin", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Unpin").wait_for()
    assert len(stored(store, "long").pins) == 1
    page.get_by_role("dialog").get_by_role("button", name="Unpin").click()
    page.get_by_role("dialog").get_by_role("button", name="Pin", exact=True).wait_for()
    assert stored(store, "long").pins == ()


def test_the_search_finds_as_one_types(opened: Any, store: Any) -> None:
    page = opened(own(store))
    page.wait_for_selector(".session")
    page.locator("#search").press_sequentially("unit_3 failed", delay=20)
    page.get_by_text("1 session", exact=True).wait_for()
    assert "unit_3" in page.locator(".session").inner_text()
    page.fill("#search", "nothing says this")
    page.get_by_text("No session says this.").wait_for()


def test_it_is_used_with_keys_alone(opened: Any, store: Any) -> None:
    page = opened(own(store))
    page.wait_for_selector(".session")
    page.focus("#search")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_selector(OPENED)
    names: list[str] = []
    for _ in range(14):
        page.keyboard.press("Tab")
        name = "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
        names.append(page.evaluate(name).strip())
        if names[-1] == "What the model sees":
            break
    for wanted in (
        "‹ All sessions",
        "To the fold before",
        "Point in time",
        "To the next fold",
        "Session",
        "What if",
        "Timeline",
    ):
        assert wanted in names, (wanted, names)
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Close").wait_for()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "What the model sees"


def test_everything_that_can_be_used_has_a_name(opened: Any, store: Any) -> None:
    page = opened(own(store))
    nameless = """() => [...document.querySelectorAll('button, input, select, a, [role], dialog, section')]
        .filter((each) => each.checkVisibility() && !['presentation', 'alert', 'status', 'tablist'].includes(each.role)
          && !(each.ariaLabel || each.textContent.trim() || each.labels?.length || each.getAttribute('aria-labelledby')))
        .map((each) => each.outerHTML.slice(0, 120))"""
    page.wait_for_selector(".session")
    assert page.evaluate(nameless) == []
    go_to(page, "long")
    assert page.evaluate(nameless) == []
    page.get_by_role("tab", name="What if").click()
    page.wait_for_selector("[data-preset]")
    assert page.evaluate(nameless) == []


def test_what_another_preset_and_budget_would_do_stands_beside_it(opened: Any, store: Any) -> None:
    page = opened(own(store))
    go_to(page, "long")
    before = len(stored(store, "long"))
    page.get_by_role("tab", name="What if").click()
    page.wait_for_selector("[data-preset=refold]")
    page.get_by_label("Budget").fill("1500")
    page.get_by_text("of 1,500").wait_for()
    page.get_by_label("Preset").select_option("pi")
    page.wait_for_selector("[data-preset=pi]")
    assert "words you typed" in page.get_by_role("region", name="What if").inner_text()
    page.get_by_role("button", name="Add another").click()
    page.get_by_role("region", name="What if 2").locator("[data-preset]").wait_for()
    assert page.locator(".column").count() == 3
    assert len(stored(store, "long")) == before, "nothing was written"


def test_another_branch_is_opened_from_where_it_leaves(opened: Any, store: Any) -> None:
    page = opened(own(store))
    go_to(page, "branched")
    page.locator("#time").fill("4")
    page.locator(".point:has(.branch)").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Other branch").click()
    page.get_by_text("· another branch").wait_for()
    assert "Another way." in page.get_by_role("listbox", name="Timeline").inner_text()


def test_sessions_appear_and_grow_while_one_looks(opened: Any, tmp_path: Path) -> None:
    store, writer = database(tmp_path / "a.db"), database(tmp_path / "a.db")
    session = put(writer, agent_session(1), id="old")
    page = opened(own(store))
    page.wait_for_selector(".session")
    put(writer, agent_session(1), id="new")
    page.get_by_text("2 sessions").wait_for()
    go_to(page, "old")
    session.append(m.user("Something just said."))
    page.get_by_role("listbox", name="What the model sees").get_by_text("Something just said.").wait_for()
    writer.delete("old")
    page.get_by_text("not there any more").wait_for()


def test_a_store_that_is_spoilt_underneath_is_named_and_the_page_goes_on(opened: Any, tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    put(store, agent_session(1), id="one")
    page = opened(own(store))
    page.wait_for_selector(".session")
    notice = page.locator("#notice").get_by_text("a.db")
    for _ in range(30):  # a look between closing and writing holds the old pages: spoil it again
        store.close()
        with (tmp_path / "a.db").open(
            "r+b", buffering=0
        ) as file:  # in one stroke: emptied first, it is a store without sessions
            file.write(b"no database at all" * 1000)
        for rest in tmp_path.glob("a.db-*"):
            rest.unlink()
        page.wait_for_timeout(500)
        if notice.is_visible():
            break
    notice.wait_for()
    assert page.locator(".session").count() == 1


def test_ten_thousand_sessions_are_shown_and_scrolled_at_once(opened: Any, tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    with store.writing():  # type: ignore[attr-defined]
        for number in range(10_000):
            store.create(
                SessionInfo(id=f"s{number:05}", created=float(number), cwd=f"/home/ann/{number % 50}")
            )
    page = opened(own(store))
    page.wait_for_selector(".session")
    page.get_by_text("10,000 sessions").wait_for()
    assert page.locator(".session").count() < 60
    page.evaluate("document.querySelector('.virtual').scrollTop = 1e9")
    until(page, "[...document.querySelectorAll('.session')].some((row) => row.ariaPosInSet === '10000')")


RUNS = "() => document.documentElement.hasAttribute('data-pwned') || document.title === 'pwned'"


def test_script_in_every_field_of_a_session_does_not_run(opened: Any, tmp_path: Path) -> None:
    store = database(tmp_path / "a.db")
    evil = "<img src=x onerror=\"document.documentElement.setAttribute('data-pwned',1)\">"
    hostile = hostile_session()
    store.create(SessionInfo(id=evil, created=1.0, name=f"Named {evil}", cwd=f"/home/{evil}"))
    session = Session(id=evil, store=store)
    for entry in hostile.path:
        session.append(entry.message, model=f"evil:{evil}")  # type: ignore[union-attr]
    session.label(session.path[2].id, evil)
    folded(session)
    page = opened(own(store), gateway=f"http://127.0.0.1:9/{evil}")
    page.wait_for_selector(".session")
    page.get_by_role("button", name="Gateway").click()
    page.locator("#meter[data-ready]").wait_for()
    page.fill("#search", "never do this")
    page.wait_for_timeout(500)
    page.locator(".session").first.click()
    page.wait_for_selector(OPENED)
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    for point in range(1, 45, 4):
        page.locator("#time").fill(str(point))
    page.locator("#time").press("End")
    for row in ("point.assistant", "point.tool", "point.user", "point.fold", "item.f-record"):
        page.evaluate("document.querySelector('.right .virtual').scrollTop = 0")
        page.locator(f".{row}").last.click()
        page.wait_for_selector("dialog[open]")
        page.keyboard.press("Escape")
    page.get_by_role("tab", name="What if").click()
    page.wait_for_selector("[data-preset]")
    assert not page.evaluate(RUNS)
    assert page.locator("img, iframe, svg, object, main script, dialog script").count() == 0
    assert "<img" in page.locator("h1").inner_text(), "it was shown as text"


def folded(session: Session) -> None:
    from refold import loop, registry
    from refold.registry.engine import Engine

    engine = Engine(registry.preset("refold", {}, budget=2_000))
    loop.run(engine.apply(session, engine.plan(session, force=True)))  # type: ignore[arg-type]


def test_the_browser_would_notice(opened: Any, store: Any) -> None:
    """The same attack runs where markup is put into a page without a policy: the test above shows something."""
    page = opened(own(store))
    page.goto("about:blank")
    page.evaluate(
        "document.body.innerHTML = '<img src=x onerror=\"document.documentElement.dataset.pwned = 1\">'"
    )
    until(page, RUNS)


def test_a_script_that_got_into_the_page_is_stopped_by_the_policy(browser: Any, store: Any) -> None:
    served = Served(own(store))
    page = browser.new_page()
    page.goto(served.url)
    page.wait_for_selector(".session")
    page.evaluate("""() => { const made = document.createElement('div');
        made.innerHTML = '<img src=x onerror="document.documentElement.dataset.pwned = 1">'; document.body.append(made);
        const script = document.createElement('script'); script.textContent = 'document.title = "pwned"'; document.body.append(script); }""")
    page.wait_for_timeout(300)
    assert not page.evaluate(RUNS)
    page.close()
    served.close()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_contrast(opened: Any, store: Any, scheme: str) -> None:
    """At least 4.5 to 1 for what is read."""
    page = opened(own(store), 1400, scheme)
    ratio = """([ink, ground]) => { const style = getComputedStyle(document.documentElement);
        const light = (name) => { const hex = style.getPropertyValue(name).trim();
          const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
          return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]; };
        const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); }"""
    pairs = [
        (ink, ground)
        for ink in ("--ink", "--quiet", "--good", "--bad", "--accent", "--mark")
        for ground in ("--bg", "--card", "--code")
    ]
    pairs += [("--ink", ground) for ground in ("--cut", "--lost", "--now")]
    assert [pair for pair in pairs if page.evaluate(ratio, list(pair)) < 4.5] == []
