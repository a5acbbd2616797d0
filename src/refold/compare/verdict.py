"""The rows of a comparison over all logs, and its verdict: which preset keeps most, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from refold.compare.forms import FORM_WORDS, MessageForm, forms_sentence
from refold.compare.measures import DECIDING, MEASURES, CountOf
from refold.compare.run import Cell
from refold.text.plural import counted

RULE = (
    "Ranked by the mean of three shares, as far as the log has something to measure: words you typed, "
    "changed files, names needed later. Equal ones by the other measures, then by cost. A view that does not "
    "fit keeps nothing."
)


class PresetGroup(NamedTuple):
    """A preset at one budget and number of passes, over all logs that are larger than the budget."""

    preset: str
    asked: str
    passes: int
    cells: tuple[Cell, ...]
    same: tuple[str, ...] = ()
    """Presets with the same figures throughout."""

    @property
    def kind(self) -> tuple[str, int]:
        return self.asked, self.passes

    @property
    def name(self) -> str:
        """The preset, with its settings."""
        return self.preset.replace(":", ", ")

    @property
    def good(self) -> list[Cell]:
        return [cell for cell in self.cells if not cell.failed]

    @property
    def fitting(self) -> list[Cell]:
        return [cell for cell in self.good if cell.fits]

    @property
    def tokens(self) -> int:
        """Total size of the views."""
        return sum(cell.tokens or 0 for cell in self.good)

    @property
    def cost(self) -> float:
        return sum(cell.cost or 0.0 for cell in self.good)

    @property
    def cost_unfolded(self) -> float:
        return sum(cell.paid.none.dollars for cell in self.good if cell.paid)

    def total(self, measure: str) -> CountOf:
        """Total over all logs; a view that does not fit keeps nothing."""
        counts = [(cell, cell.counts[measure]) for cell in self.cells if measure in cell.counts]
        return CountOf(sum(x.kept for cell, x in counts if cell.fits), sum(x.of for _, x in counts))

    def kept(self, measures: Iterable[str] = DECIDING) -> float:
        """The mean share of what the logs have."""
        shares = [share for name in measures if (share := self.total(name).share) is not None]
        return fmean(shares) if shares else 0.0

    def form(self, form: MessageForm) -> int:
        """Number of messages in this form."""
        return sum(cell.forms[form].messages for cell in self.good if cell.forms)

    @property
    def rank(self) -> tuple[float, float, float, float]:
        """Smaller is better; presets that do not fit come last, failures after them."""
        out = 0 if self.fitting else self.tokens or float("inf")
        return out, -self.kept(), -self.kept(MEASURES), self.cost


def preset_groups(cells: Iterable[Cell]) -> list[PresetGroup]:
    """Best first, by budget and passes, of logs that do not fit; presets with equal figures are one."""
    by_kind: defaultdict[tuple[str, int, str], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.needs_folding:
            by_kind[cell.asked, cell.passes, cell.preset].append(cell)
    found: dict[Any, PresetGroup] = {}
    for (asked, passes, preset), listed in by_kind.items():
        figures = tuple((x.file, x.tokens, x.fits, *x.counts.values(), x.cost, x.requests) for x in listed)
        key = asked, passes, preset if all(cell.failed for cell in listed) else figures
        earlier = found.get(key)
        found[key] = (
            earlier._replace(same=(*earlier.same, preset))
            if earlier
            else PresetGroup(preset, asked, passes, tuple(listed))
        )
    kinds = list(dict.fromkeys(group.kind for group in found.values()))
    return sorted(found.values(), key=lambda group: (kinds.index(group.kind), group.rank))


class Verdict(NamedTuple):
    """The result of a comparison at one budget."""

    title: str
    """Names are in backticks, here and below."""
    lines: tuple[str, ...] = ()
    best: PresetGroup | None = None


def verdicts(cells: Sequence[Cell]) -> list[Verdict]:
    """One per budget and number of passes at which something must be folded, and one for all others."""
    if all(cell.failed for cell in cells):
        return [Verdict("Nothing could be compared.", tuple(dict.fromkeys(x.error or "" for x in cells))[:3])]
    listed = preset_groups(cells)
    kinds = dict.fromkeys(group.kind for group in listed)
    found = [_verdict([group for group in listed if group.kind == kind]) for kind in kinds]
    read = [cell for cell in cells if cell.log_tokens or not cell.failed]
    loose = [cell for cell in read if (cell.asked, cell.passes) not in kinds]
    return [*found, _nothing_to_fold(loose)] if loose else found


def _nothing_to_fold(cells: Sequence[Cell]) -> Verdict:
    asked = _listed([budget(text) for text in dict.fromkeys(cell.asked for cell in cells)])
    which = "conversation" if len({cell.file for cell in cells}) == 1 else "longest conversation"
    text = f"The {which} has {max(cell.log_tokens for cell in cells):,} tokens and fits {asked} as it is."
    lines = [f"`{cell.preset}` failed: {cell.error}" for cell in cells if cell.failed]
    eager = dict.fromkeys(x.preset for x in cells if not x.failed and (x.tokens or 0) < x.log_tokens)
    if eager:
        lines.append(f"Presets that fold it anyway: {_listed([f'`{name}`' for name in eager])}.")
    return Verdict("Nothing needs folding.", (text, *lines, "A smaller budget (`--budgets`) shows more."))


def budget(asked: str) -> str:
    """A budget, and of what."""
    return f"{asked} of the log" if "%" in asked else f"{asked} tokens"


def _verdict(listed: Sequence[PresetGroup]) -> Verdict:
    """Of the presets at one budget, best first."""
    fitting = [group for group in listed if group.fitting]
    place = budget(listed[0].asked) + (f", folded {listed[0].passes} times" if listed[0].passes > 1 else "")
    if not fitting:
        near = min(listed, key=lambda group: group.tokens or float("inf"))
        told = f"Nearest is `{near.name}` with {near.tokens:,} tokens." if near.good else near.cells[0].error
        return Verdict(f"No preset fits {place}.", (told or "",))
    best, measured = fitting[0], [name for name in DECIDING if listed[0].total(name).of]
    equal = [group for group in fitting if _counts(group, measured) == _counts(best, measured)]
    next_best = next((group for group in fitting if group not in equal), None)
    names = _listed([f"`{group.name}`" for group in equal])
    keep = "keeps" if len(equal) == 1 else "keep the same amount:"
    what = _listed([_of(best, name) for name in measured]) or "nothing that can be counted"
    size = f", in {best.tokens:,} tokens" if len(equal) == len(best.cells) == 1 else ""
    lines = (
        f"It fits {len(best.fitting)} of {len(best.cells)} conversations." if len(best.cells) > 1 else "",
        _told_apart(equal) if len(equal) > 1 else "",
        _next(next_best, measured) if next_best else "",
        _loses(best, fitting),
        _size(best),
        _costs(best),
        _does_not_fit(listed),
    )
    return Verdict(f"At {place}, {names} {keep} {what}{size}.", tuple(filter(None, lines)), best)


def _counts(group: PresetGroup, names: Iterable[str]) -> list[CountOf]:
    return [group.total(name) for name in names]


def _of(group: PresetGroup, name: str) -> str:
    """`12 of the 30 words you typed`."""
    count = group.total(name)
    return f"{count.kept:,} of {'the ' if name == 'words' else ''}{count.of:,} {MEASURES[name][1]}"


def _told_apart(equal: Sequence[PresetGroup]) -> str:
    """What distinguishes the best of equal presets."""
    best = equal[0]
    rest = [name for name in MEASURES if name not in DECIDING and best.total(name).of]
    if any(_counts(group, rest) != _counts(best, rest) for group in equal):
        return f"Of the rest `{best.name}` keeps most: {_listed([_of(best, name) for name in rest])}."
    return f"`{best.name}` costs least." if any(group.cost > best.cost for group in equal) else ""


def _next(group: PresetGroup, measured: Sequence[str]) -> str:
    kept = _listed(
        [counted(group.total(name).kept, MEASURES[name][0].removesuffix("s")) for name in measured]
    )
    size = f", in {group.tokens:,} tokens" if len(group.cells) == 1 else ""
    return f"Next best is `{group.name}` with {kept}{size}."


def _loses(best: PresetGroup, fitting: Sequence[PresetGroup]) -> str:
    lost: list[str] = []
    for name in MEASURES:
        other = max(fitting, key=lambda group: group.total(name).kept)
        if other.total(name).kept > best.total(name).kept:
            lost.append(f"`{other.name}` has {_of(other, name)}, `{best.name}` {best.total(name).kept:,}")
    return f"Where it loses: {'; '.join(lost)}." if lost else ""


def _size(best: PresetGroup) -> str:
    before = sum(cell.log_tokens for cell in best.good)
    forms = forms_sentence({form: best.form(form) for form in FORM_WORDS})
    return f"{before:,} tokens became {best.tokens:,}. {forms.capitalize()}."


def _costs(best: PresetGroup) -> str:
    none, cost = best.cost_unfolded, best.cost
    if not none:
        return ""
    part, prices = (cost - none) / none, f"({dollars(none)} → {dollars(cost)})"
    if abs(part) < 0.005:
        return f"Costs the same as without folding ({dollars(none)})."
    if part < 0:
        return f"Saves {percent(-part)} {prices}."
    return f"Costs {percent(part)} more than not folding {prices}: after a fold the context is cached anew."


def _does_not_fit(listed: Sequence[PresetGroup]) -> str:
    out = [
        f"`{group.name}` ({group.tokens:,} tokens)" for group in listed if group.good and not group.fitting
    ]
    return f"Does not fit: {_listed(out)}." if out else ""


def dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.3f}"


def change(cost: float, none: float) -> str:
    """A difference in percent, with a proper minus sign; empty below half a percent."""
    part = (cost - none) / none if none else 0.0
    return ("−" if part < 0 else "+") + percent(abs(part)) if abs(part) >= 0.005 else ""


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _listed(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
