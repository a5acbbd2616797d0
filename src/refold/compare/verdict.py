"""Cells of one kind over all transcripts, and the verdict of a comparison in words: what to take, what it
keeps, what it loses, what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from refold.compare.forms import FORMS, Form
from refold.compare.run import Cell


class Group(NamedTuple):
    """One design at one budget and number of passes, over all transcripts."""

    preset: str
    asked: str
    passes: int
    cells: tuple[Cell, ...]

    @property
    def name(self) -> str:
        """The design, with its settings."""
        return self.preset.replace(":", ", ")

    @property
    def good(self) -> list[Cell]:
        return [cell for cell in self.cells if not cell.failed]

    @property
    def folded(self) -> list[Cell]:
        """What a design can be judged by: a transcript that was not folded must not speak for one that
        was."""
        return [cell for cell in self.good if not cell.untouched]

    @property
    def fitting(self) -> int:
        return sum(bool(cell.fits) for cell in self.good)

    def mean(self, value: Callable[[Cell], float | None]) -> float | None:
        return _mean(map(value, self.good))

    def kept(self, value: Callable[[Cell], float | None]) -> float | None:
        """The mean over the transcripts that were folded."""
        return _mean(map(value, self.folded))

    def form(self, form: Form) -> float | None:
        return self.kept(lambda cell: cell.share(form))

    @property
    def retention(self) -> float | None:
        """The mean of the user's words, the files, and the messages of which something is left."""
        gone = self.form("gone")
        words, files = self.kept(lambda cell: cell.constraints), self.kept(lambda cell: cell.artifacts)
        return _mean((words, files, None if gone is None else 1 - gone))

    @property
    def cost(self) -> float:
        return sum(cell.cost or 0.0 for cell in self.good)

    @property
    def cost_unfolded(self) -> float:
        return sum(cell.paid.none.dollars for cell in self.good if cell.paid)


def _mean(values: Iterable[float | None]) -> float | None:
    """Of those that there are."""
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


def groups(cells: Iterable[Cell]) -> list[Group]:
    found: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.preset, cell.asked, cell.passes), []).append(cell)
    return [Group(*key, tuple(listed)) for key, listed in found.items()]


CLOSE = 0.02
"""Designs that keep nearly as much as the best are as good; of them the cheapest is taken."""
RULE = (
    "How it was chosen: of the designs that fit most often the one that keeps most (mean of your words, "
    "changed files and messages not gone); of those within 2 points of it the cheapest."
)


class Verdict(NamedTuple):
    title: str
    """Names stand in backticks, here and below."""
    text: tuple[str, ...]
    best: Group | None = None


def verdict(cells: Sequence[Cell], sizes: Sequence[int]) -> Verdict:
    """`sizes`: tokens of the transcripts."""
    found = groups(cells)
    good = [group for group in found if group.good]
    folded = [group for group in good if group.folded]
    fitting = [group for group in folded if any(cell.fits for cell in group.folded)]
    if not good:
        return Verdict(
            "Nothing could be compared.", tuple(dict.fromkeys(cell.error or "" for cell in cells))[:3]
        )
    least = min(cell.budget for group in good for cell in group.good)
    if not folded or 0 < max(sizes, default=0) <= least:
        # Some designs fold although all fits: what they lose, they lose for nothing.
        return Verdict("Nothing needs folding.", (_untouched(sizes, good),))
    if not fitting:
        nearest = min(folded, key=lambda group: group.mean(lambda cell: cell.tokens) or 0)
        size = nearest.mean(lambda cell: cell.tokens) or 0
        near = f"Nearest is `{nearest.name}` at {nearest.asked} with {size:,.0f} tokens."
        return Verdict("No design fits.", (near, nearest.cells[0].error or ""))
    best = ranked(fitting)[0]
    times = f", folded {best.passes} times" if best.passes > 1 else ""
    lines = (_fits(best), _keeps(best), _loses(best), _costs(best), _others(best, folded))
    return Verdict(f"Take `{best.name}` at {best.asked}{times}.", tuple(filter(None, lines)), best)


def ranked(found: Sequence[Group]) -> list[Group]:
    """Best first. Who fits in more transcripts, keeps more, costs less."""
    order = sorted(found, key=lambda group: (-group.fitting, -(group.retention or 0), group.cost))
    if not order:
        return order
    first = order[0]
    close = [
        group
        for group in order
        if group.fitting == first.fitting and (group.retention or 0) >= (first.retention or 0) - CLOSE
    ]
    best = min(close, key=lambda group: group.cost)
    return [best, *(group for group in order if group is not best)]


def _untouched(sizes: Sequence[int], good: Sequence[Group]) -> str:
    over = [cell for group in good for cell in group.good if not cell.fits]
    if over:
        return over[0].error or "No design found anything to fold."
    size = max(sizes)
    which = "The conversation" if len(sizes) == 1 else "The longest conversation"
    asked = ", ".join(dict.fromkeys(group.asked for group in good))
    return (
        f"{which} has {size:,} tokens and fits {asked} as it is. A smaller budget (`--budgets`) shows more."
    )


def _fits(best: Group) -> str:
    if len(best.cells) == 1:
        return ""
    untouched = len(best.good) - len(best.folded)
    as_is = f"; {untouched} of them as they are" if untouched else ""
    return f"It fits in {best.fitting} of {len(best.cells)} transcripts{as_is}."


def _keeps(best: Group) -> str:
    words, files = best.kept(lambda cell: cell.constraints), best.kept(lambda cell: cell.artifacts)
    parts = [
        f"{_share(words)} your own words" if words is not None else "",
        f"the names of {_share(files)} changed files" if files is not None else "",
        _forms(best),
    ]
    return f"Keeps {_listed([part for part in parts if part])}."


def _share(value: float) -> str:
    return "all" if value == 1 else f"{value:.0%} of"


def _forms(best: Group) -> str:
    counts = {form: sum(cell.forms[form].messages for cell in best.folded if cell.forms) for form in FORMS}
    shown = (("whole", "whole"), ("clipped", "clipped"), ("lines", "as lines"))
    parts = [f"{counts[form]:,} {name}" for form, name in shown if counts[form]]
    return f"of {sum(counts.values()):,} messages {_listed(parts)}" if parts else ""


def _loses(best: Group) -> str:
    gone = [cell.forms["gone"] for cell in best.folded if cell.forms]
    messages, tokens = sum(part.messages for part in gone), sum(part.tokens for part in gone)
    if not messages:
        return "Lost: nothing; of every message something is in the view."
    return (
        f"Lost: {messages:,} messages ({tokens:,} tokens) of which nothing in the view tells. "
        "The log keeps them, and `refold recall` finds them."
    )


def _costs(best: Group) -> str:
    none, cost = best.cost_unfolded, best.cost
    if not none:
        return ""
    change = (cost - none) / none
    if abs(change) < 0.005:
        return f"Money: ${none:,.2f} without folding and the same with it."
    why = "" if change < 0 else ": cached tokens are cheap, and each fold starts the cache anew"
    return f"Without folding ${none:,.2f}, with it ${cost:,.2f} ({percent(change)}{why})."


def _others(best: Group, folded: Sequence[Group]) -> str:
    same = [group for group in folded if (group.asked, group.passes) == (best.asked, best.passes)]
    rest = [group for group in ranked(same) if group is not best and group.fitting]
    out = [group for group in same if not group.fitting]
    told = ""
    if rest:
        least, most = rest[0].retention or 0, best.retention or 0
        much = "as much" if most - least < 0.005 else f"{least:.0%} where this keeps {most:.0%}"
        told = f"Next: `{rest[0].name}`, which keeps {much}."
    if out:
        told += f" Does not fit: {_listed([f'`{group.name}`' for group in out])}."
    return told.strip()


def percent(change: float) -> str:
    """A difference, with a minus that is one."""
    return f"{change:+.0%}".replace("-", "−")


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
