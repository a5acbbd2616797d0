"""The identifier index: literal, ranked, bounded; and the importance of entries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold import messages as m
from refold.digest.facts import decides
from refold.preserve import identifiers as ids
from refold.protocols import complete


def found(text: str) -> dict[str, str]:
    return dict(ids.identifiers(text))


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("see src/app/main.py:12", "src/app/main.py", "path"),
        ("open ~/.config/tool.toml.", "~/.config/tool.toml", "path"),
        ("the file main.py is", "main.py", "path"),
        ("call get_user_id()", "get_user_id", "name"),
        ("this.session.switchBranch(x)", "switchBranch", "name"),
        ("class HTTPServer:", "HTTPServer", "name"),
        ("card credit_card_7407366", "credit_card_7407366", "id"),
        ("order #W2378156,", "W2378156", "id"),
        ("commit 3f2a9bc1 was", "3f2a9bc1", "id"),
        ("port 50051 is", "50051", "number"),
        ("在文件src/核心.py和lib/core.py中", "lib/core.py", "path"),
    ],
)
def test_kinds(text: str, name: str, kind: str) -> None:
    assert found(text).get(name) == kind


@pytest.mark.parametrize(
    "text", ["plain words only, really", "array.push it", "3.14 and 1,000", "----- ..... /////", "e.g. this"]
)
def test_plain_text_has_none(text: str) -> None:
    assert not found(text)


def test_every_identifier_of_the_index_is_literal_and_parts_are_not_repeated() -> None:
    said = [m.user("look at src/app/main.py and main.py and get_user_id in src/app/main.py")]
    order = ids.ranked(complete(ids.collecting(said)).values(), 1)
    text = ids.index(order, 100, len)
    assert "src/app/main.py" in text and "get_user_id" in text
    assert text.split().count("main.py") == 0


def test_called_asked_and_recent_ones_come_first() -> None:
    said: list[m.Message] = [m.result("c0", " ".join(f"noise_name_{letter}x" for letter in "abcdefghij"))]
    said += [m.assistant("", m.call("c1", "Read", path="lib/used.py")), m.user("mind wanted_thing")]
    said += [m.result("c2", '{"field_name": "value_given"}')]
    order = [one.text for one in ids.ranked(complete(ids.collecting(said)).values(), len(said))]
    assert set(order[:2]) == {"lib/used.py", "wanted_thing"}
    assert order.index("value_given") < order.index("field_name")


@given(
    st.lists(st.from_regex(r"[a-z]{2,6}_[a-z]{2,6}(/[a-z]{3}\.py)?", fullmatch=True), max_size=60),
    st.integers(0, 400),
)
def test_index_fits(names: list[str], budget: int) -> None:
    order = ids.ranked(complete(ids.collecting([m.user(" ".join(names))])).values(), 1)
    assert len(ids.index(order, budget, len)) <= budget


def test_an_earlier_index_competes_again() -> None:
    assert "old/kept.py" in complete(ids.collecting([m.user("new/one.py")], earlier="old/kept.py old_name"))


@pytest.mark.parametrize(
    ("text", "is_one"), [("Let's go with Redis.", True), ("我们决定改用 Redis", True), ("I see.", False)]
)
def test_decisions(text: str, is_one: bool) -> None:
    assert decides(text) is is_one
