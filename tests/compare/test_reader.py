"""The report as a person uses it, in Chromium at two sizes: `make test-browser` installs what this needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from refold import loop
from refold.compare import budgets
from refold.compare.report import page
from refold.compare.run import ComparisonPlan, compare
from tests.browser import SCHEMES, WIDTHS, browser, new_page
from tests.compare.sessions import long_session

pytestmark = pytest.mark.browser

__all__ = ["browser", "new_page"]


def written(folder: Path, count: int) -> Path:
    name = f"a_very_long_name_of_a_transcript_{'that_goes_on_' * 6}.jsonl"
    sessions = [(f"{n:02}_{name}", long_session(12 if count == 1 else 1)) for n in range(count)]
    designs = ("refold", "pi", "rounds", "augment:carry_previous_summary=true")
    one, many = (
        ComparisonPlan(designs, budgets.parse_budgets("2k,3k"), (1, 2)),
        ComparisonPlan(designs[:2], budgets.parse_budgets("2k")),
    )
    done = loop.run(compare(sessions, one if count == 1 else many))
    file = folder / f"{count}.html"
    file.write_text(page(done), "utf-8")
    return file


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {count: written(folder, count) for count in (1, 50)}


@pytest.fixture
def opened(new_page: Any, reports: dict[int, Path]) -> Any:
    """A function that opens a report."""

    def open_(count: int = 1, width: int = 1400, scheme: str = "light") -> Any:
        made = new_page(reports[count].as_uri(), width, scheme)
        made.wait_for_selector("#explorer[data-ready]")
        return made

    return open_


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
    for _ in range(1_000):  # it is unpacked a moment later; a waiting page may not evaluate text
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
