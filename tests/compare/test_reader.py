"""The report as a person uses it, in Chromium at two sizes: `make test-browser` installs what this needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from refold import loop
from refold import messages as m
from refold.compare import budgets
from refold.compare.report import page
from refold.compare.run import Plan, compare
from refold.session import Session
from tests.compare.sessions import agent_session
from tests.compare.test_browser import CHROMIUM, FLAGS

pytestmark = pytest.mark.browser

driver: Any = import_module("playwright.sync_api") if find_spec("playwright") else None
if driver is None or CHROMIUM is None:
    pytest.skip("NO BROWSER: `make test-browser` installs Chromium and playwright", allow_module_level=True)

WIDTHS = (390, 1400)
SCHEMES = ("light", "dark")


def long_session(rounds: int = 20) -> Session:
    """One that every part of the reader has something to show of: clips, lines, what is gone, a long word."""
    session = agent_session(rounds)
    session.append(m.user("Now look at the log. " + "x" * 400))
    for number in range(6):
        session.append(m.assistant("", m.call(f"b{number}", "Bash", command=f"make target_{number}")))
        lines = "\n".join(f"compiling unit_{number}_{line}.c" for line in range(120))
        session.append(m.result(f"b{number}", f"{lines}\nerror: unit_{number} failed", name="Bash"))
    return session


def written(folder: Path, count: int) -> Path:
    name = f"a_very_long_name_of_a_transcript_{'that_goes_on_' * 6}.jsonl"
    sessions = [(f"{n:02}_{name}", long_session(12 if count == 1 else 1)) for n in range(count)]
    designs = ("refold", "pi", "rounds", "augment:carry_previous_summary=true")
    one, many = (
        Plan(designs, budgets.parse_list("2k,3k"), (1, 2)),
        Plan(designs[:2], budgets.parse_list("2k")),
    )
    done = loop.run(compare(sessions, one if count == 1 else many))
    file = folder / f"{count}.html"
    file.write_text(page(done), "utf-8")
    return file


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {count: written(folder, count) for count in (1, 50)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with driver.sync_playwright() as playwright:
        flags = [flag for flag in FLAGS if "headless" not in flag and "virtual" not in flag]
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield launched
        launched.close()


@pytest.fixture
def opened(browser: Any, reports: dict[int, Path]) -> Iterator[Any]:
    """A function that opens a report; afterwards, nobody may have complained."""
    complaints: list[str] = []
    pages: list[Any] = []

    def complain(what: object) -> None:
        complaints.append(str(what))

    def open_(count: int = 1, width: int = 1400, scheme: str = "light") -> Any:
        made = browser.new_page(viewport={"width": width, "height": 850}, color_scheme=scheme)
        made.set_default_timeout(5_000)
        made.on("console", complain)
        made.on("pageerror", complain)
        made.goto(reports[count].as_uri())
        made.wait_for_selector("#explorer[data-ready]")
        pages.append(made)
        return made

    yield open_
    for made in pages:
        made.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("count", [1, 50])
def test_nothing_is_wider_than_the_screen(opened: Any, count: int, width: int, scheme: str) -> None:
    made = opened(count, width, scheme)
    made.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    made.wait_for_timeout(100)
    assert made.evaluate("document.documentElement.scrollWidth") <= width
    wide = """[...document.querySelectorAll('main *')].filter((each) => each.checkVisibility() &&
        !each.closest('svg, pre, select, .title') && each.getBoundingClientRect().right > innerWidth).length"""
    assert made.evaluate(wide) == 0


def test_it_opens_with_the_verdict(opened: Any) -> None:
    made = opened()
    assert re.match(r"At 2k tokens, .*\d+ of the \d+ words you typed", made.locator("h1").inner_text())
    said = made.locator(".verdict").first.inner_text()
    assert "tokens became" in said and "$" in said


def test_the_deciding_columns_are_seen_on_a_phone(opened: Any) -> None:
    made = opened(1, 390)
    row = made.locator(".presets tbody tr").first
    for label in ("kept", "words", "files", "names", "messages", "view", "cost"):
        assert row.locator(f'td[data-label="{label}"]').is_visible()


def test_all_lost_messages_are_listed_and_the_search_finds_one(opened: Any) -> None:
    made = opened()
    lost = int(made.locator("[data-part=found]").inner_text().split()[0])
    assert made.locator(".rows > details").count() == lost > 20
    made.fill("[data-part=search]", "unit_3 failed")
    made.get_by_text(re.compile("^1 of 67 messages")).wait_for()
    row = made.locator(".rows > details")
    row.locator("summary").click()
    assert "compiling unit_3_0.c" in row.locator(".side").first.inner_text()
    assert made.locator(".rows mark.hit").count() >= 1
    row.get_by_role("button", name="Show it in its turn").click()
    assert "make target_3" in made.locator("[data-part=step]").inner_text()
    made.fill("[data-part=search]", "no such words anywhere")
    made.get_by_text("No such message.").wait_for()


def test_the_slider_moves_through_the_conversation_by_mouse_and_by_keys(opened: Any) -> None:
    made = opened()
    slider, place = made.locator("[data-part=slider]"), made.locator("[data-part=place]")
    slider.fill("1")
    assert (
        "step 1 of" in place.inner_text() and "You are a coding agent." in made.locator(".step").inner_text()
    )
    slider.press("ArrowRight")
    assert "step 2 of" in place.inner_text() and "Please fix the login." in made.locator(".step").inner_text()
    assert "step 2 of" in slider.get_attribute("aria-valuetext")
    made.get_by_role("button", name="one turn on").click()
    assert "turn 2 of 4" in place.inner_text()
    made.get_by_role("button", name="one turn back").click()
    assert "turn 1 of 4" in place.inner_text()


def test_clipped_places_are_marked_on_both_sides(opened: Any) -> None:
    made = opened()
    for box in ("w", "l", "g"):
        made.locator(f"[name=form][value={box}]").set_checked(False)
    rows = made.locator(".rows > details")
    assert rows.count() >= 1
    rows.first.locator("summary").click()
    rows.first.locator("del").first.wait_for()
    assert rows.first.locator("mark.cut").count() >= 1


def test_each_fold_of_each_preset_can_be_looked_at(opened: Any) -> None:
    made = opened()
    titles = made.locator("[data-part=preset] option").all_inner_texts()
    assert len(titles) == 16 and len(set(titles)) == 16
    for number in range(len(titles)):
        made.locator("[data-part=preset]").select_option(str(number))
        folds = made.locator("[data-part=fold] option").count()
        for fold in range(folds if folds > 1 else 0):
            made.locator("[data-part=fold]").select_option(str(fold))
            assert made.locator(".step .pair").count() >= 1


def test_any_of_fifty_transcripts_can_be_opened(opened: Any) -> None:
    made = opened(50)
    assert made.locator("[data-part=transcript] option").count() == 50
    made.locator(".transcript summary").nth(30).click()
    made.locator(".transcript [data-open]").nth(30).click()
    for _ in range(100):  # it is unpacked a moment later; a waiting page may not evaluate text
        if made.locator("[data-part=transcript]").input_value() == "30":
            break
        made.wait_for_timeout(50)
    assert made.locator("[data-part=transcript]").input_value() == "30"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_contrast(opened: Any, scheme: str) -> None:
    """At least 4.5 to 1 for what is read: the words on the page and on its cards, good, bad and quiet ones."""
    made = opened(1, 1400, scheme)
    ratio = """([ink, ground]) => { const style = getComputedStyle(document.documentElement);
        const light = (name) => { const hex = style.getPropertyValue(name).trim();
          const parts = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
          return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]; };
        const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); }"""
    pairs = [
        (ink, ground) for ink in ("--ink", "--quiet", "--good", "--bad") for ground in ("--bg", "--card")
    ]
    pairs += [("--ink", ground) for ground in ("--code", "--cut", "--lost", "--hit")] + [
        ("--quiet", "--code")
    ]
    assert [pair for pair in pairs if made.evaluate(ratio, list(pair)) < 4.5] == []
