"""The page: safe by construction, complete, and of bounded size."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import loop, presets
from refold.compare import budgets
from refold.compare.groups import groups
from refold.compare.report import page
from refold.compare.report.charts import scatter, short, thinned, ticks
from refold.compare.report.html import el, plain, text
from refold.compare.run import Cell, Comparison, Plan, compare
from refold.session import Session
from tests.compare.hostile import attacks, hostile_session
from tests.compare.sessions import agent_session

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "article", "div", "p", "h1", "h2",
    "h3", "h4", "h5", "ul", "ol", "li", "b", "i", "span", "small", "code", "pre", "dl", "dt", "dd", "table", "thead", "tbody",
    "tr", "th", "td", "figure", "figcaption", "details", "summary", "svg", "rect", "line", "polyline", "polygon", "text", "circle",
}  # fmt: skip


class Elements(HTMLParser):
    """Names and attributes of a page; complains where elements do not nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(
    *sessions: tuple[str, Session], names: tuple[str, ...] = presets.NAMES, budget: str = "3k"
) -> Comparison:
    return loop.run(compare(list(sessions), Plan(names, budgets.parse_list(budget))))


def parsed(document: str) -> Elements:
    found = Elements()
    found.feed(document)
    assert found.open == []
    return found


@given(st.text())
def test_text_never_becomes_markup(value: str) -> None:
    for made in (text(value), el("p", value), el("p", title=value)):
        inner = re.sub(r'^<p(?: title=")?|"?></p>$|</p>$', "", made).lstrip(">")
        assert "<" not in inner and '"' not in inner
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", made)
        made.encode()


def test_plain_keeps_what_people_write() -> None:
    kept = "Zeile\n\tTab, 中文, émoji 👩‍👩‍👧, “quotes” & <tags>"
    assert plain(kept) == kept
    assert html.unescape(el("p", kept)) == f"<p>{kept}</p>"


def test_the_policy_allows_exactly_this_style_sheet_and_nothing_else() -> None:
    document = page(made(("a.jsonl", agent_session())))
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)"', document)
    [style] = re.findall(r"<style>(.*?)</style>", document, re.S)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert html.unescape(policy) == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert document.index("Content-Security-Policy") < document.index("<style>")


@pytest.mark.parametrize("asked", ["3k", "30%"])
def test_a_hostile_transcript_adds_no_element_and_no_attribute(asked: str) -> None:
    name = "<script>alert(1)</script>/\"onload='x'\x1b[2J.jsonl"
    document = page(made((name, hostile_session()), budget=asked))
    found = parsed(document)
    assert set(found.names) <= ALLOWED
    keys = {key for key, _ in found.attributes}
    assert not {key for key in keys if key.startswith("on")}
    assert not keys & {"href", "src", "style", "srcdoc", "action", "data", "xlink:href"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", document)
    document.encode()


def test_the_page_shows_what_was_checked_lost_and_how_to_recall_it() -> None:
    document = page(made(("work/a.jsonl", agent_session(20)), names=("refold",)))
    for part in (
        "At a glance",
        "Size of the context",
        "Retention against tokens",
        "Money",
        "Before:",
        "After:",
    ):
        assert part in document
    assert re.search(r"refold recall work/a\.jsonl --keys [a-z2-7]{7}", document)
    for fact in ("Verified", "Lost", "Recall"):
        assert f"<dt>{fact}</dt>" in document
    assert "Never touch the files in migrations/." in document


def test_the_page_holds_with_nothing_with_one_and_with_fifty() -> None:
    empty = loop.run(compare([], Plan(("refold",), budgets.parse_list("3k"))))
    parsed(page(empty))
    one = page(made(("a.jsonl", agent_session(6)), names=("refold", "pi")))
    many = made(
        *((f"{n:02}.jsonl", agent_session(3 + n % 4, size=3_000)) for n in range(50)),
        names=("refold", "pi"),
        budget="1500",
    )
    fifty = page(many)
    assert parsed(fifty).names.count("details") == 50 + 100
    assert len(one) < 200_000 and len(fifty) < 4_000_000
    assert "50</b> transcripts" in fifty


def test_failed_cells_are_shown_with_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, settings: object, **more: object) -> object:
        raise ValueError("<b>because</b>")

    monkeypatch.setattr(presets, "make", broken)
    document = page(made(("a.jsonl", agent_session(2)), names=("refold",)))
    assert "ValueError: &lt;b&gt;because&lt;/b&gt;" in document


def test_a_transcript_that_was_not_folded_does_not_speak_for_one_that_was() -> None:
    folded = Cell(
        file="a", preset="p", budget=9, passes=1, tokens=9, fits=True, constraints=0.0, artifacts=0.0
    )
    whole = Cell(file="b", preset="p", budget=9, passes=1, tokens=9, fits=True, artifacts=1.0)
    failed = Cell(file="c", preset="p", budget=9, passes=1, error="no")
    [group] = groups([folded, whole, failed])
    assert group.retention == 0.25
    assert group.good == [folded, whole]
    assert groups([failed])[0].retention is None


def test_curves_are_thinned_to_their_extremes() -> None:
    curve = [n % 97 for n in range(10_000)]
    points = thinned(curve, 100)
    assert len(points) <= 102
    assert points == sorted(points)
    assert max(value for _, value in points) == 96 and min(value for _, value in points) == 0
    assert thinned([3, 1, 2]) == [(0, 3), (1, 1), (2, 2)]


@given(st.floats(0.001, 1e12))
def test_ticks_are_few_and_within(top: float) -> None:
    found = ticks(top)
    assert found[0] == 0 and found[-1] <= top * 1.0001 and 2 <= len(found) <= 6


def test_numbers_are_short_and_empty_charts_are_charts() -> None:
    assert [short(n) for n in (0, 999, 1_000, 79_700, 410_637, 2_500_000)] == [
        "0",
        "999",
        "1k",
        "79.7k",
        "411k",
        "2.5M",
    ]
    parsed(scatter([], [], "nothing"))


def test_the_attacks_are_attacks() -> None:
    """Without escaping they would add elements: otherwise the tests above show nothing."""
    found = HTMLParser()
    names: list[str] = []
    found.handle_starttag = lambda tag, attrs: names.append(tag)  # type: ignore[method-assign]
    found.feed("".join(attacks()[:1]))
    assert names == ["script"]
