"""Identifiers, as `refold compare` counts them."""

from __future__ import annotations

import pytest

from refold.compare.measures import identifiers


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see src/app/main.py:12", "src/app/main.py"),
        ("open ~/.config/tool.toml.", "~/.config/tool.toml"),
        ("the file main.py is", "main.py"),
        ("call get_user_id()", "get_user_id"),
        ("this.session.switchBranch(x)", "switchBranch"),
        ("class HTTPServer:", "HTTPServer"),
        ("card credit_card_7407366", "credit_card_7407366"),
        ("order #W2378156,", "W2378156"),
        ("commit 3f2a9bc1 was", "3f2a9bc1"),
        ("port 50051 is", "50051"),
        ("在文件src/核心.py和lib/core.py中", "lib/core.py"),
    ],
)
def test_paths_names_ids_and_numbers(text: str, name: str) -> None:
    assert name in identifiers(text)


@pytest.mark.parametrize(
    "text", ["plain words only, really", "array.push it", "3.14 and 1,000", "----- ..... /////", "e.g. this"]
)
def test_plain_text_has_none(text: str) -> None:
    assert not list(identifiers(text))
