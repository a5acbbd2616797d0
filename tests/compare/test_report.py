"""The page: safe by construction, complete, and of bounded size."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import loop, presets
from refold import messages as m
from refold.compare import budgets
from refold.compare.report import message_details, page
from refold.compare.report.html import el, redacted_text
from refold.compare.report.page import short_number
from refold.compare.run import Comparison, ComparisonPlan, compare
from refold.compare.verdict import verdicts
from refold.session import Session
from refold.session.edits import said_by
from tests.compare.blocks import blocks, everything
from tests.compare.hostile import attacks, hostile_session
from tests.compare.sessions import agent_session

ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "article", "div", "p", "h1", "h2",
    "h3", "h4", "h5", "ul", "ol", "li", "b", "i", "span", "small", "code", "pre", "dl", "dt", "dd", "table", "thead", "tbody",
    "tr", "th", "td", "figure", "figcaption", "details", "summary", "svg", "rect", "line", "polyline", "polygon", "text",
    "script", "noscript", "select", "option", "label", "input", "button",
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
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def made(
    *sessions: tuple[str, Session], names: tuple[str, ...] = presets.NAMES, budget: str = "3k"
) -> Comparison:
    return loop.run(compare(list(sessions), ComparisonPlan(names, budgets.parse_budgets(budget))))


@cache
def usual() -> Comparison:
    return made(("a.jsonl", agent_session()))


def messages(session: Session) -> list[m.Message]:
    return [said for entry in session.path if (said := said_by(entry)) is not None]


def parsed(document: str) -> Elements:
    found = Elements()
    found.feed(document)
    assert found.open == []
    return found


@given(st.text())
def test_text_never_becomes_markup(value: str) -> None:
    for made in (el("p", value), el("p", title=value)):
        inner = re.sub(r'^<p(?: title=")?|"?></p>$|</p>$', "", made).lstrip(">")
        assert "<" not in inner and '"' not in inner
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", made)
        made.encode()


def test_plain_keeps_what_people_write() -> None:
    kept = "Zeile\n\tTab, 中文, émoji 👩‍👩‍👧, “quotes” & <tags>"
    assert redacted_text(kept) == kept
    assert html.unescape(el("p", kept)) == f"<p>{kept}</p>"


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_policy_allows_exactly_this_style_sheet_and_this_script() -> None:
    document = page(usual())
    [policy] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)"', document)
    [style] = re.findall(r"<style>(.*?)</style>", document, re.S)
    [script] = re.findall(r"<script>(.*?)</script>", document, re.S)
    assert html.unescape(policy) == (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; script-src 'sha256-{digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert document.index("Content-Security-Policy") < document.index("<style>")


def test_the_script_puts_text_into_the_page_and_never_html() -> None:
    script = files("refold.compare.report").joinpath("explorer.js").read_text("utf-8")
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "fetch(",
    ):
        assert way not in script


@pytest.mark.sample(1)
@pytest.mark.parametrize("asked", ["3k", "30%"])
def test_a_hostile_transcript_adds_no_element_and_no_attribute(asked: str) -> None:
    name = "<script>alert(1)</script>/\"onload='x'\x1b[2J.jsonl"
    document = page(made((name, hostile_session()), budget=asked))
    found = parsed(document)
    assert set(found.names) <= ALLOWED
    keys = {key for key, _ in found.attributes}
    assert not {key for key in keys if key.startswith("on")}
    assert not keys & {"href", "src", "style", "srcdoc", "action", "data", "xlink:href"}
    own, *packed = sorted(re.findall(r"<script([^>]*)>(.*?)</script>", document, re.S))
    assert own[0] == "" and all(re.fullmatch(r"[A-Za-z0-9+/=]+", text) for _, text in packed)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", document)
    document.encode()


def test_the_page_shows_what_was_checked_lost_and_how_to_recall_it() -> None:
    document = page(made(("work/a.jsonl", agent_session(20)), names=("refold",)))
    for part in ("All presets", "Look inside", "Messages that are not whole", "What the columns mean"):
        assert part in document
    [block] = blocks(document)
    assert block["quoted"] == "work/a.jsonl"
    assert all(re.fullmatch(r"[a-z2-7]{7}", entry["key"]) for entry in block["entries"])
    [cell] = block["cells"]
    assert "No model: everything here was taken" in cell["folds"][0]["check"]
    assert "Never touch the files in migrations/." in everything(document)


def test_every_message_of_a_transcript_can_be_opened_with_what_became_of_it() -> None:
    session = agent_session(20)
    done = made(("a.jsonl", session))
    [block] = blocks(page(done))
    assert [entry["text"] for entry in block["entries"]] == [m.in_full(said) for said in messages(session)]
    for cell, packed in zip(done.cells, block["cells"], strict=True):
        assert cell.forms is not None
        forms = dict.fromkeys(range(len(block["entries"])), "w")
        for fold in packed["folds"]:
            for edit in fold["edits"]:
                assert len(edit["forms"]) == edit["last"] - edit["first"] + 1
                forms |= dict(enumerate(str(edit["forms"]), int(edit["first"])))
        if len(packed["folds"]) == 1:
            assert Counter(forms.values()) == {
                form[0]: part.messages for form, part in cell.forms.items() if part.messages
            }


def test_a_message_that_is_told_by_a_line_leads_to_that_line() -> None:
    done = made(("a.jsonl", agent_session(20)), names=("refold",))
    [block] = blocks(page(done))
    told = [
        (block["entries"][int(number)], edit["put"][put]["text"].split("\n")[line])
        for edit in block["cells"][0]["folds"][-1]["edits"]
        for number, (put, line) in edit["lines"].items()
    ]
    assert len(told) > 5
    assert any(f"module_{n:02}" in line for _, line in told for n in range(20))


@pytest.mark.slow
def test_the_page_holds_with_nothing_with_one_and_with_fifty() -> None:
    empty = loop.run(compare([], ComparisonPlan(("refold",), budgets.parse_budgets("3k"))))
    parsed(page(empty))
    one = page(made(("a.jsonl", agent_session(6)), names=("refold", "pi")))
    many = made(
        *((f"{n:02}.jsonl", agent_session(3 + n % 4, size=3_000)) for n in range(50)),
        names=("refold", "pi"),
        budget="1500",
    )
    fifty = page(many)
    assert parsed(fifty).names.count("details") == 50
    assert len(blocks(fifty)) == 50
    assert len(one) < 200_000 and len(fifty) < 1_000_000


def test_long_messages_lose_their_middle_where_the_page_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_details, "MAX_MESSAGE_CHARS", 4_000)
    monkeypatch.setattr(message_details, "MAX_FOLD_CHARS", 4_000)
    done = usual()
    [block] = blocks(page(done))
    assert sum(len(entry["text"]) for entry in block["entries"]) < 4_000 + 60 * 80
    assert "characters left out on this page" in block["entries"][3]["text"]
    for edit in (edit for cell in block["cells"] for fold in cell["folds"] for edit in fold["edits"]):
        for number, place in edit["own"].items():
            text = block["entries"][int(number)]["text"]
            for piece in edit["put"][place]["text"]:
                if not isinstance(piece, str) and len(piece) == 2:
                    assert 0 <= piece[0] < piece[1] <= len(text)


def test_the_same_comparison_makes_the_same_page() -> None:
    done = usual()
    assert page(done) == page(done)


def test_failed_cells_are_shown_with_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, settings: object, **more: object) -> object:
        raise ValueError("<b>because</b>")

    monkeypatch.setattr(presets, "make", broken)
    document = page(made(("a.jsonl", agent_session(2)), names=("refold",)))
    assert "ValueError: &lt;b&gt;because&lt;/b&gt;" in document


def test_numbers_are_short() -> None:
    numbers = (0, 999, 1_000, 79_700, 410_637, 2_500_000)
    assert [short_number(n) for n in numbers] == ["0", "999", "1k", "79.7k", "411k", "2.5M"]


def test_the_page_has_the_verdicts_and_counts_of_the_terminal() -> None:
    done = made(("a.jsonl", agent_session(12)), names=("refold", "pi"), budget="2k,3k")
    document = html.unescape(re.sub("<[^>]+>", "", page(done)))
    for verdict in verdicts(done.cells):
        for line in (verdict.title, *verdict.lines):
            assert line.replace("`", "") in document
    best = next(cell for cell in done.cells if cell.preset == "refold")
    assert f'title="{best.counts["calls"].kept} of {best.counts["calls"].of}"' in page(done)


def test_what_fits_as_it_is_has_no_row_and_what_does_not_fit_has_no_shares() -> None:
    names = ("refold", "window")
    document = page(made(("a.jsonl", agent_session(12)), names=names, budget="3k,2m"))
    loose = document[document.index("Folded to 2m tokens") : document.index('id="inside"')]
    assert "fits as it is" in loose and "<tr" not in loose
    tight = re.findall(r"<tr.*?</tr>", page(made(("a.jsonl", agent_session(12)), names=names, budget="300")))
    assert any("does not fit" in row for row in tight)
    assert not any("does not fit" in row and " %" in row for row in tight)


def test_presets_with_the_same_figures_share_a_row() -> None:
    names = ("refold", "augment", "augment:carry_previous_summary=true")
    document = page(made(("a.jsonl", agent_session()), names=names, budget="2k,3k"))
    rows = [
        " ".join(html.unescape(re.sub("<[^>]+>", " ", row)).replace("keeps most", "").split())
        for row in re.findall(r'<th scope="row">.*?</th>', document)
    ]
    assert sorted(rows) == ["augment and augment, carry_previous_summary=true"] * 2 + ["refold"] * 2
    assert 'class="swatch p-augment"' in document and "p-augment:" not in document


def test_a_log_without_files_has_a_dash() -> None:
    chat = Session()
    for number in range(40):
        chat.append(m.user(f"Tell me about place {number}. " + "It is far away from here. " * 20))
        chat.append(m.assistant(f"Place {number} is a town. " + "It has houses and a harbour. " * 20))
    document = page(made(("chat", chat), names=("refold",)))
    assert re.search(r'data-label="files"><span title="nothing to measure by" class="quiet">–<', document)


def test_the_attacks_are_attacks() -> None:
    """Without escaping they would add elements: otherwise the tests above show nothing."""
    found = HTMLParser()
    names: list[str] = []
    found.handle_starttag = lambda tag, attrs: names.append(tag)  # type: ignore[method-assign]
    found.feed("".join(attacks()[:1]))
    assert names == ["script"]
