"""One change at a time to a module: what a careless hand might have written instead.

A change is found by its number in a fixed walk through the syntax tree, so that any process can make it again from
the text of the module. Left alone: annotations, docstrings, sentences for people, keywords of classes and
decorators (`frozen=True`), `zip(…, strict=True)` (a check on ourselves that nothing sets off), `__all__` and what
only a type checker reads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
METHODS = {
    "startswith": "endswith",
    "endswith": "startswith",
    "find": "rfind",
    "lstrip": "rstrip",
    "rstrip": "lstrip",
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Change(NamedTuple):
    """One way to be wrong. `make` changes the tree that it was found in."""

    scope: str | None
    """The outermost function (`name`, `Class.name`) whose code differs; None: what runs when the module is imported."""
    line: int
    was: str
    becomes: Callable[[], str]
    """Makes the change and says it."""


def changes(tree: ast.Module) -> Iterator[Change]:
    """Every change that can be made, in the order of the source."""
    yield from _block(tree.body, None, ())


def mutated(source: str, number: int) -> tuple[ast.Module, Change, str]:
    """The tree of the module with one change made, the change, and what stands there now."""
    tree = ast.parse(source)
    for n, change in enumerate(changes(tree)):
        if n == number:
            becomes = change.becomes()
            return ast.fix_missing_locations(tree), change, becomes
    raise IndexError(number)


# ── statements ──────────────────────────────────────────────────────────────────────────────────


def _block(body: list[ast.stmt], scope: str | None, path: tuple[str, ...]) -> Iterator[Change]:
    for index, node in enumerate(list(body)):
        if _is_skipped(node):
            continue
        if (removed := _removed(body, index, node, scope)) is not None:
            yield removed
        yield from _statement(node, scope, path)


def _statement(node: ast.stmt, scope: str | None, path: tuple[str, ...]) -> Iterator[Change]:
    if isinstance(node, FUNCTIONS):
        inner = scope or ".".join((*path, node.name))
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                yield from _expression(default, scope)
        yield from _block(node.body, inner, (*path, node.name))
    elif isinstance(node, ast.ClassDef):
        yield from _block(node.body, scope, (*path, node.name))
    else:
        if isinstance(node, ast.If | ast.While) and not isinstance(
            node.test, ast.Compare | ast.BoolOp | ast.UnaryOp
        ):
            yield _replaced(node, "test", ast.UnaryOp(ast.Not(), node.test), scope)
        if isinstance(node, ast.Return) and node.value is not None and not _is_falsy(node.value):
            yield _replaced(node, "value", ast.Constant(None), scope)
        if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
            yield _replaced(node, "op", ARITHMETIC[type(node.op)](), scope)
        for name, value in ast.iter_fields(node):
            if name == "annotation":
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.expr):
                    yield from _expression(part, scope)
                elif isinstance(part, ast.withitem):
                    yield from _expression(part.context_expr, scope)
                elif isinstance(part, ast.ExceptHandler):
                    yield from _block(part.body, scope, path)
                elif isinstance(part, ast.match_case):
                    if part.guard is not None:
                        yield from _expression(part.guard, scope)
                    yield from _block(part.body, scope, path)
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield from _block(value, scope, path)


def _is_skipped(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass | ast.Global | ast.Nonlocal):
        return True
    if isinstance(node, FUNCTIONS):  # only declared: a protocol, an overload
        return all(isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant) for x in node.body)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        return any(isinstance(x, ast.Name) and x.id.startswith("__") for x in node.targets)
    return isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation)


def _removed(body: list[ast.stmt], index: int, node: ast.stmt, scope: str | None) -> Change | None:
    """The statement left out, where the rest still runs."""
    if isinstance(node, ast.Continue | ast.Break):
        other = ast.Break() if isinstance(node, ast.Continue) else ast.Continue()
    elif isinstance(node, ast.Expr | ast.Raise | ast.AugAssign | ast.Delete) or (
        isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    ):
        other = ast.Pass()
    else:
        return None

    def make() -> str:
        body[index] = ast.copy_location(other, node)
        return ast.unparse(other)

    return Change(scope, node.lineno, ast.unparse(node), make)


# ── expressions ─────────────────────────────────────────────────────────────────────────────────


def _expression(node: ast.expr, scope: str | None, parent: ast.expr | None = None) -> Iterator[Change]:
    yield from _here(node, scope, parent)
    if isinstance(node, ast.JoinedStr):
        return
    for child in _parts(node):
        if isinstance(child, ast.keyword):
            if child.arg == "strict":
                continue
            child = child.value
        if isinstance(child, ast.comprehension):
            for part in (child.iter, *child.ifs):
                yield from _expression(part, scope)
        elif isinstance(child, ast.expr) and not _is_sentence(child):
            yield from _expression(child, scope, node)


def _parts(node: ast.expr) -> Iterator[ast.AST]:
    """What stands in an expression; not what only a type checker reads: the first argument of `cast`."""
    is_cast = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast"
    yield from node.args[1:] if is_cast else ast.iter_child_nodes(node)


def _here(node: ast.expr, scope: str | None, parent: ast.expr | None) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for n, op in enumerate(node.ops):
            yield _replaced(node, "ops", [*node.ops[:n], COMPARISONS[type(op)](), *node.ops[n + 1 :]], scope)
    elif isinstance(node, ast.BoolOp):
        yield _replaced(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And(), scope)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _replaced(node, "operand", ast.UnaryOp(ast.Not(), node.operand), scope)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield _replaced(node, "op", ARITHMETIC[type(node.op)](), scope)
    elif isinstance(node, ast.IfExp) and not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
        yield _replaced(node, "test", ast.UnaryOp(ast.Not(), node.test), scope)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES:
        yield _replaced(node, "func", ast.Name(NAMES[node.func.id], ast.Load()), scope)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        other = ast.Attribute(node.func.value, METHODS[node.func.attr], ast.Load())
        yield _replaced(node, "func", other, scope)
    elif isinstance(node, ast.Constant) and (other := _other(node.value)) is not None:
        # Shown with what it stands in: a line may have the same number twice.
        yield _replaced(node, "value", other, scope, parent)


def _other(value: object) -> object:
    """A constant instead of this one; None: it stays."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 2 or 1.0
    if isinstance(value, str):
        return None if _is_words(value) else f"{value}X" if value else "X"
    return None


def _is_words(text: str) -> bool:
    """A sentence for people: no test should hold its wording."""
    return " " in text.strip() or len(text) > 60


def _is_sentence(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_words(node.value)


def _is_falsy(node: ast.expr) -> bool:
    """None instead of it would mean the same to most callers."""
    if isinstance(node, ast.Tuple | ast.List | ast.Dict):
        return not ast.unparse(node).strip("[]{}()")
    return isinstance(node, ast.Constant) and not node.value


def _replaced(
    node: ast.AST, field: str, value: object, scope: str | None, parent: ast.expr | None = None
) -> Change:
    shown = parent if parent is not None and parent.lineno == parent.end_lineno else node
    was = _header(shown)

    def make() -> str:
        setattr(node, field, value)
        return _header(shown)

    return Change(scope, getattr(node, "lineno", 0), was, make)


def _header(node: ast.AST) -> str:
    """The text of a node without the blocks under it."""
    return ast.unparse(node).partition("\n")[0][:200]
