"""The notebook, cell by cell, in one namespace: what each shows."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from typing import Any

from tests.examples.kit import EXAMPLES


def shown(cell: str, names: dict[str, Any]) -> Any:
    """What a notebook shows under a cell: the value of its last line."""
    tree = ast.parse(cell)
    last = tree.body[-1]
    assert isinstance(last, ast.Expr)
    tree.body[-1] = ast.copy_location(ast.Assign([ast.Name("_shown", ast.Store())], last.value), last)
    ast.fix_missing_locations(tree)
    made = eval(compile(tree, "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)  # noqa: S307
    if inspect.iscoroutine(made):
        asyncio.run(made)
    return names["_shown"]


def test_every_cell_of_the_notebook_runs_and_shows_something() -> None:
    book = json.loads((EXAMPLES / "tour.ipynb").read_text("utf-8"))
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    values = [shown(cell, names) for cell in cells]
    session, whole, plan, fold, view, hits, again = values
    assert all("<table>" in value._repr_html_() for value in (session, whole, plan, fold, view, again))
    assert whole.tokens > 90_000 and view.tokens <= 10_000 and again.tokens == whole.tokens
    assert fold in session.path and hits
    assert not any(cell.get("outputs") for cell in book["cells"])
