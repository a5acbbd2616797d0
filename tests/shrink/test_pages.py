"""R19: what nobody reads in a page leaves first."""

from __future__ import annotations

import time

import pytest

from refold import messages as m
from refold import tokens
from refold.shrink.clip import clipped
from refold.shrink.pages import page

COUNTER = tokens.get("o200k")
CARDS = "".join(
    f"<div id='item-{n}'><h3>Model {n}</h3><a class='buy' href='/p/{n}'>Buy</a></div>" for n in range(40)
)
PAGE = (
    "<!DOCTYPE html><html><head><title>Your cart</title><SCRIPT>var a = '<b>' + x;</SCRIPT >"
    f"<style>b {{ color: red }}</style></head><body><!-- build 7 --><svg><path d='M0'/></svg>{CARDS}</body></html>"
)


def test_R19_a_page_keeps_its_elements_and_loses_scripts() -> None:
    made = page(PAGE)
    assert made is not None
    assert made.startswith(
        "<!DOCTYPE html>\n<html>\n<head>\n<title>Your cart</title></head>\n<body>\n<div id='item-0'>"
    )
    assert not any(word in made for word in ("var a", "color: red", "build 7", "path"))
    assert made.replace("\n", "").endswith(CARDS + "</body></html>")


def test_R19_a_clip_of_a_page_is_cut_between_elements() -> None:
    small = clipped(m.result("c", PAGE), 120, COUNTER, key="#7").text
    head, rest = small.split("[…", 1)
    assert head.endswith(">\n")
    assert rest.split("…]", 1)[1].startswith("\n<")


def test_R19_other_text_is_no_page() -> None:
    assert (
        page("In HTML a page has <html> at its beginning. " * 20) is not None
    )  # harmless: nothing to leave out
    assert page("def f():\n    return '<div>'\n" * 50) is None


@pytest.mark.timing
@pytest.mark.parametrize("piece", ["<script>", "<!--", "><", "<a ", " "])
def test_R19_a_hostile_page_takes_time_in_proportion(piece: str) -> None:
    def seconds(count: int) -> float:
        start = time.process_time()
        page("<html>" + piece * count)
        return time.process_time() - start

    small, large = (min(seconds(count) for _ in range(3)) for count in (20_000, 80_000))
    assert large < 0.05 or large < 9 * small  # 16 times would be quadratic
