"""M12, the last step: shares, differences and names from views and scores; results, documents and the chart.

The first file of views is what is published; the others are compared with it, in the same run. The first file of scores is by
the judge that is published; further judges stand beside it.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import continuation, judge_gpu, results
from benchmarks.cells import markdown
from benchmarks.judge_gpu import read

TOLD_LEAST = 0.15
"""Nats per token: a case that `full` tells less of than this has nothing to tell, and is left out."""
RIVALS = {"files": "claude+files", "half": "claude+files", "summary": "claude"}
COMPARISONS = (
    ("refold@files", "claude+files"),
    ("refold@half", "claude+files"),
    ("refold@files", "tail@files"),
    ("refold@summary", "claude"),
    ("refold@summary", "tail@summary"),
    ("refold@8000", "summary+tail@8000"),
    ("summary+refold@8000", "summary+tail@8000"),
    ("refold@16000", "summary+tail@16000"),
    ("summary+refold@16000", "summary+tail@16000"),
    ("refold with notes@8000", "refold@8000"),
    ("refold with notes as asked for@8000", "refold@8000"),
    ("refold with notes as asked for@8000", "summary+tail@8000"),
    ("refold with notes@16000", "refold@16000"),
    ("refold with notes as asked for@16000", "refold@16000"),
    ("refold with notes as asked for@16000", "summary+tail@16000"),
)
"""View and rival, the fairest first."""
LONG = "@16000"
"""The views that are scored by old names."""
OTHER = "other "
CHART = results.ROOT / "docs" / "images" / "compactions.svg"

Nats = dict[str, dict[str, float | None]]
"""Case → view → nats per token; None where the view is too long for the judge."""


class Difference(NamedTuple):
    mean: float
    error: float
    better: int
    cases: int


def rival(view: str) -> str:
    size = view.partition("@")[2]
    return RIVALS.get(size, f"summary+tail@{size}")


def session(case: str) -> str:
    return case.rsplit("@", 1)[0]


def told(row: dict[str, float | None]) -> bool:
    none, full = row.get("none"), row.get("full")
    return none is not None and full is not None and none - full >= TOLD_LEAST


def counting(nats: Nats, view: str) -> Nats:
    """The cases that count for a view: their full text tells something, the judge could read the view, and the view was
    asked for. One that was asked for and is missing did not fit its budget: it counts as no history."""
    way, _, size = view.partition("@")
    asked = {"": view, "half": "claude+files"}.get(
        size, f"summary+tail@{size}" if way.startswith("summary+") else f"tail@{size}"
    )
    return {
        case: {**row, view: row.get(view, row["none"])}
        for case, row in nats.items()
        if told(row) and asked in row and row.get(view, row["none"]) is not None
    }


def shares(nats: Nats, view: str) -> dict[str, float]:
    """Per session, of what the full text tells about the next steps, what the view still tells, in per cent."""
    gained, whole = defaultdict[str, float](float), defaultdict[str, float](float)
    for case, row in counting(nats, view).items():
        gained[session(case)] += row["none"] - row[view]
        whole[session(case)] += row["none"] - row["full"]
    return {name: 100 * gained[name] / whole[name] for name in whole}


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    listed = list(values)
    if len(listed) < 2:
        return (listed[0] if listed else 0.0), 0.0
    return statistics.mean(listed), statistics.stdev(listed) / len(listed) ** 0.5


def difference(nats: Nats, view: str, other: str) -> Difference:
    """Points by which a view is ahead, session by session on the cases that both have; and in how many cases."""
    both = {case: row for case, row in counting(nats, view).items() if case in counting(nats, other)}
    both = {case: {**row, **counting(nats, other)[case], view: row[view]} for case, row in both.items()}
    mine, theirs = shares(both, view), shares(both, other)
    mean, error = mean_and_error(mine[name] - theirs[name] for name in mine)
    better = sum(row[view] < row[other] for row in both.values())
    return Difference(round(mean, 1), round(error, 1), better, len(both))


def in_nats(nats: Nats, view: str, other: str) -> Difference:
    """The same in nats per token, for a judge that cannot read the full text."""
    both = {
        case: row for case, row in nats.items() if row.get(view) is not None and row.get(other) is not None
    }
    by = defaultdict[str, list[float]](list)
    for case, row in both.items():
        by[session(case)].append(row[other] - row[view])
    mean, error = mean_and_error(statistics.mean(values) for values in by.values())
    better = sum(row[view] < row[other] for row in both.values())
    return Difference(round(mean, 4), round(error, 4), better, len(both))


# ── results ─────────────────────────────────────────────────────────────────────────────────────


def nats_of(scores: dict[str, Any], label: str, of: str, figure: str = "nats") -> Nats:
    found: Nats = {}
    for row in scores["rows"]:
        if row["label"] == label and row["set"] == of and figure in row:
            found.setdefault(row["case"], {})[row["view"]] = row[figure]
    return found


def by_view(nats: Nats, file: dict[str, Any]) -> dict[str, Any]:
    """Every view of the published label, by the published judge."""
    cases = [case for case in file["cases"] if case["set"] == "compactions"]
    names = [name for name in dict.fromkeys(v for row in nats.values() for v in row) if name != "none"]
    rows: dict[str, Any] = {}
    for name in names:
        mean, error = mean_and_error(shares(nats, name).values())
        sizes = [case["sizes"][name] for case in cases if name in case["sizes"]]
        counted = counting(nats, name)
        rows[name] = {"share": round(mean, 1), "error": round(error, 1), "cases": len(counted)}
        rows[name] |= {"fits": sum(name in nats[case] for case in counted)}
        rows[name] |= {"tokens": round(statistics.median(sizes))}
    return rows


def kept_names(file: dict[str, Any]) -> dict[str, Any]:
    """Of all names that were needed, how many per cent a view has; a view that did not fit has none."""
    cases = [case for case in file["cases"] if case["set"] == "compactions"]
    needed = {kind: sum(case["needed"][kind] for case in cases) for kind in cases[0]["needed"]}
    views = dict.fromkeys(name for case in cases for name in case["kept"])
    return {
        "needed": needed,
        "views": {
            name: {
                kind: round(100 * sum(case["kept"].get(name, {}).get(kind, 0) for case in cases) / number, 1)
                for kind, number in needed.items()
            }
            for name in views
        },
    }


def long_range(old: Nats, names: Sequence[str]) -> dict[str, Any]:
    """Nats by which a view makes a name that only the older part has less of a surprise than no history does."""
    rows: dict[str, Any] = {}
    for name in names:
        gains = defaultdict[str, list[float]](list)
        for case, row in old.items():
            if row.get("none") is not None and f"tail{LONG}" in row:
                seen = row.get(f"{name}{LONG}", row["none"])
                gains[session(case)].append(row["none"] - (row["none"] if seen is None else seen))
        mean, error = mean_and_error(statistics.mean(values) for values in gains.values())
        about = {"sessions": len(gains), "cases": sum(map(len, gains.values()))}
        rows[name] = {"16000": {"gain": round(mean, 4), "error": round(error, 4), **about}}
    return rows


def judge_row(scores: dict[str, Any], label: str) -> dict[str, Any]:
    """What one judge says of the comparisons, in nats per token."""
    nats = nats_of(scores, label, "compactions")
    rows = {f"{view} − {other}": in_nats(nats, view, other)._asdict() for view, other in COMPARISONS}
    return {
        **{key: value for key, value in scores.items() if key != "rows"},
        "comparisons": {name: row for name, row in rows.items() if row["cases"]},
    }


def compared(scores: dict[str, Any], first: str, other: str) -> dict[str, Any]:
    """Another label's views beside the first one's, in the same run: points, and in how many cases they are better."""
    found: dict[str, Any] = {}
    for of in ("compactions", "prefixes"):
        mine, theirs = nats_of(scores, first, of), nats_of(scores, other, of)
        joined: Nats = {
            case: {**row, **{f"{OTHER}{view}": nats for view, nats in theirs[case].items()}}
            for case, row in mine.items()
            if case in theirs
        }
        for view in dict.fromkeys(view for row in theirs.values() for view in row):
            changed = any(row.get(view) != row.get(f"{OTHER}{view}") for row in joined.values())
            if changed and view not in ("none", "full"):
                found.setdefault(of, {})[view] = _compared(joined, view)
    return found


def _compared(joined: Nats, view: str) -> dict[str, Any]:
    counted = counting(joined, view)
    both: Nats = {
        case: {
            "none": row["none"],
            "full": row["full"],
            "a": row[view],
            "b": row.get(f"{OTHER}{view}", row["none"]),
        }
        for case, row in counted.items()
    }
    was, error_was = mean_and_error(shares(both, "a").values())
    now, error_now = mean_and_error(shares(both, "b").values())
    return {
        "was": [round(was, 1), round(error_was, 1)],
        "now": [round(now, 1), round(error_now, 1)],
        "difference": difference(both, "b", "a")._asdict(),
    }


def prefixes(scores: dict[str, Any], label: str) -> dict[str, Any]:
    """M9 in the form of `benchmarks.continuation`, by the published judge."""
    nats = nats_of(scores, label, "prefixes")
    rows = {
        case: {view.replace("@", " "): value for view, value in row.items() if value is not None}
        for case, row in nats.items()
        if row.get("none") is not None
    }
    names = list(
        dict.fromkeys(view.partition("@")[0] for row in nats.values() for view in row if "@" in view)
    )
    old = nats_of(scores, label, "prefixes", "old_nats")
    return {
        "judge": scores["judge"],
        "device": scores["device"],
        "window": scores["window"],
        "stretch": 1.0,
        "full": continuation.FULL,
        "cases": len(rows),
        "sessions": len({session(case) for case in rows}),
        "views": continuation.table(rows, names, continuation.BUDGETS),
        "single": {
            case: {view: round(value, 4) for view, value in row.items()} for case, row in rows.items()
        },
        "long_range": long_range(old, [name for name in ("tail", "pi", "refold") if name in names]),
    }


def compactions(files: Sequence[dict[str, Any]], scores: Sequence[dict[str, Any]]) -> dict[str, Any]:
    file, judged = files[0], scores[0]
    label = file["label"]
    nats = nats_of(judged, label, "compactions")
    cases = {case["case"]: case for case in file["cases"] if case["set"] == "compactions"}
    counted = [case for case, row in nats.items() if told(row)]
    old = nats_of(judged, label, "compactions", "old_nats")
    ways = ("tail", "pi", "augment", "refold", "summary+tail", "summary+refold")
    return {
        "judge": {key: value for key, value in judged.items() if key != "rows"},
        "label": label,
        "commit": file["made"]["commit"],
        "cases": len(counted),
        "sessions": len({session(case) for case in counted}),
        "left_out": [case for case in nats if case not in counted],
        "folded": round(statistics.median(case["tokens"] for case in cases.values())),
        "views": by_view(nats, file),
        "differences": {
            f"{view} − {other}": difference(nats, view, other)._asdict() for view, other in COMPARISONS
        },
        "better": {
            view: difference(nats, view, rival(view))._asdict()
            for view in dict.fromkeys(v for row in nats.values() for v in row if "@" in v)
        },
        "names": kept_names(file),
        "long_range": long_range(old, ways),
        "judges": [judge_row(one, label) for one in scores],
        "labels": {other["label"]: compared(judged, label, other["label"]) for other in files[1:]},
        "single": {
            case: {
                "tokens": cases[case]["tokens"],
                "nats": {view: value and round(value, 4) for view, value in row.items()},
                "sizes": cases[case]["sizes"],
                "needed": cases[case]["needed"],
                "kept": {view: list(kept.values()) for view, kept in cases[case]["kept"].items()},
            }
            for case, row in nats.items()
        },
    }


def check(files: Sequence[Path], scores: Sequence[dict[str, Any]]) -> None:
    """Scores of other texts than these are refused."""
    views = [view for case in judge_gpu.views(files, lambda _: True) for view in case]
    keys = {(view.label, view.set, view.case, view.name): view.key for view in views}
    labels = {view.label for view in views}
    for row in (row for one in scores for row in one["rows"] if row["label"] in labels):
        place = row["label"], row["set"], row["case"], row["view"]
        if keys.get(place) != row["key"]:
            raise SystemExit(f"the scores are of other views than these: {', '.join(place)}")


def write(given: argparse.Namespace) -> None:
    files, scores = [read(path) for path in given.views], [read(path) for path in given.scores]
    judged = scores[0]
    check(given.views, scores)
    made = {**files[0]["made"], "date": judged["date"], "load_before": [], "load_after": []}
    made["machine"] = {**made["machine"], "processor": judged["device"]}
    stored: dict[str, dict[str, Any]] = {"compactions": compactions(files, scores)}
    if nats_of(judged, files[0]["label"], "prefixes"):
        stored["continuation_full"] = prefixes(judged, files[0]["label"])
    for label, sets in stored["compactions"]["labels"].items():
        for of, views in sets.items():
            print(f"{of}: {label} beside {files[0]['label']}")
            for view, row in views.items():
                print(
                    f"  {view:36s} {_points(*row['was'])} → {_points(*row['now'])}   {_ahead(row['difference'])}"
                )
    if given.dry:
        print("\n\n".join(table(stored["compactions"]) for table in TABLES.values()))
        return
    for name, result in stored.items():
        results.write(name, result, seconds=judged["seconds"], before=[], quick=False, made=made)
    CHART.parent.mkdir(exist_ok=True)
    CHART.write_text(chart(stored["compactions"]), encoding="utf-8")


def _points(share: float, error: float) -> str:
    return f"{share:.1f} ± {error:.1f}"


def _ahead(row: dict[str, Any]) -> str:
    return f"{row['mean']:+.1f} ± {row['error']:.1f}, better in {row['better']}/{row['cases']}"


# ── tables ──────────────────────────────────────────────────────────────────────────────────────

CAPTION = "Shares by size, with standard errors"
SIZES = ("files", "summary", "8000", "16000")
WAYS = {
    "claude": "Claude Code",
    "refold": "**refold**, no model",
    "refold@half": "**refold**, no model, half of that size",
    "refold with notes as asked for": "**refold** with notes: what its prompt asks for, of Claude Code's summary",
    "refold with notes": "**refold** with notes: Claude Code's whole summary",
    "summary+refold": "Claude Code's summary, then **refold**",
    "summary+tail": "Claude Code's summary, then the tail",
    "tail": "tail",
    "pi": "preset `pi`, no model",
    "augment": "preset `augment`, no model",
    "control: another session": "control: another session's view",
    "control: bag of names": "control: bag of names",
}


def cell_view(way: str, size: str) -> str:
    """The view that stands in a row and a column."""
    if way == "claude":
        return {"files": "claude+files", "summary": "claude"}.get(size, "")
    if way == "refold@half":
        return way if size == "files" else ""
    return f"{way}@{size}"


def size_names(found: dict[str, Any]) -> dict[str, str]:
    tokens = {
        size: found["views"][view]["tokens"]
        for size, view in (("files", "claude+files"), ("summary", "claude"))
    }
    return {
        "files": f"as large as what Claude Code sends (median {tokens['files']:,} tokens)",
        "summary": f"as large as its summary ({tokens['summary']:,})",
        "8000": "8,000 tokens",
        "16000": "16,000 tokens",
    }


def by_way(found: dict[str, Any], cell: Callable[[str], str], sizes: Sequence[str] = SIZES) -> str:
    rows = [[name, *(cell(cell_view(way, size)) or "–" for size in sizes)] for way, name in WAYS.items()]
    named = size_names(found)
    return markdown(["view", *(named[size] for size in sizes)], rows)


def source(found: dict[str, Any]) -> str:
    return (
        f"*{found['cases']} compactions in {found['sessions']} sessions, {found['folded']:,} tokens folded each time "
        f"(median). Window of the judge: {found['judge']['window']:,}.*"
    )


def main_table(found: dict[str, Any]) -> str:
    def cell(view: str) -> str:
        if view not in found["views"]:
            return ""
        row, ahead = found["views"][view], found["better"].get(view)
        fits = "" if row["fits"] >= row["cases"] else f"; {row['fits']} fit"
        against = f" ({ahead['better']}/{ahead['cases']}{fits})" if ahead and rival(view) != view else ""
        return f"{row['share']:.1f} ± {row['error']:.1f}{against}"

    return f"{by_way(found, cell)}\n\n{source(found)}\n\n![{CAPTION}](images/compactions.svg)"


def differences(found: dict[str, Any]) -> str:
    rows = [[_named(name), _ahead(row)] for name, row in found["differences"].items() if row["cases"]]
    return markdown(["", "points of what the full text tells"], rows)


_SIZED = {
    "files": "of the same size",
    "half": "of half the size",
    "summary": "of the summary's size",
    "8000": "at 8,000",
    "16000": "at 16,000",
}


def _named(comparison: str) -> str:
    view, other = comparison.split(" − ")
    way, _, size = view.partition("@")
    against = {"claude+files": "what Claude Code sends", "claude": "its summary alone"}.get(
        other, other.partition("@")[0]
    )
    spoken = {
        "summary+refold": "summary, then refold",
        "summary+tail": "summary, then the tail",
        "tail": "the tail",
        "refold with notes": "refold with the whole summary as notes",
        "refold with notes as asked for": "refold with notes as its prompt asks for them",
    }
    return f"{spoken.get(way, way)} {_SIZED[size]} − {spoken.get(against, against)}"


def names_table(found: dict[str, Any]) -> str:
    named = found["names"]

    def cell(view: str) -> str:
        shares = named["views"].get(view)
        return " / ".join(f"{share:.0f}" for share in shares.values()) if shares else ""

    needed = ", ".join(f"{number} {kind}" for kind, number in named["needed"].items())
    return f"{by_way(found, cell, SIZES[:1])}\n\n*Needed in all: {needed}.*"


def judges_table(found: dict[str, Any]) -> str:
    """Nats per token, so that a judge whose window does not hold the full text has a column, too."""
    judges = found["judges"]
    rows = [
        [
            _named(name),
            *(
                f"{row['mean']:+.3f} ± {row['error']:.3f}, {row['better']}/{row['cases']}"
                if (row := judge["comparisons"].get(name))
                else "–"
                for judge in judges
            ),
        ]
        for name in found["differences"]
    ]
    return markdown(["nats per token less", *(judge["judge"] for judge in judges)], rows)


def long_range_table(found: dict[str, Any]) -> str:
    rows = [
        [WAYS[way], f"{row['16000']['gain']:.3f} ± {row['16000']['error']:.3f}"]
        for way, row in found["long_range"].items()
    ]
    return markdown(["view", "16,000 tokens"], rows)


TABLES = {
    "compactions": main_table,
    "compactions-differences": differences,
    "compactions-names": names_table,
    "compactions-judges": judges_table,
    "compactions-long-range": long_range_table,
}


# ── the chart ───────────────────────────────────────────────────────────────────────────────────

BARS = {
    "files": ("claude", "refold", "refold@half", "tail"),
    "summary": ("claude", "refold", "tail"),
    "8000": ("summary+tail", "refold", "summary+refold", "tail"),
    "16000": ("summary+tail", "refold", "summary+refold", "tail"),
}
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 } .group { font-weight: 600 } .tick { font-size: 11px; fill: #59636e }
.card { fill: #ffffff } .grid { stroke: #d1d9e0 } .error { stroke: #1f2328; stroke-width: 1.5 }
.claude { fill: #c76b3f } .refold { fill: #1a6fd4 } .mixed { fill: #7a52c7 } .tail { fill: #8c959f }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .tick { fill: #9198a1 } .card { fill: #0d1117 } .grid { stroke: #3d444d } .error { stroke: #e6edf3 }
.claude { fill: #d98a62 } .refold { fill: #4c9aff } .mixed { fill: #a685e8 } .tail { fill: #6e7681 } }
"""
LEFT, WIDTH, ROW, GAP, TOP = 290, 480, 22, 34, 46


def chart(found: dict[str, Any]) -> str:
    """Bars with their standard errors, by size; legible on a light and on a dark page."""
    most = max(120.0, *(row["share"] + row["error"] for row in found["views"].values()))
    drawn: list[str] = []
    y = TOP
    for size, ways in BARS.items():
        drawn.append(f'<text class="group" x="16" y="{y + 14}">{size_names(found)[size]}</text>')
        y += ROW
        for way in ways:
            row = found["views"].get(cell_view(way, size))
            if row is None:
                continue
            drawn.append(_bar(WAYS[way].replace("**", ""), _colour(way), row, y, WIDTH / most))
            y += ROW
        y += GAP - ROW
    grid = "".join(
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{y}"/><text class="tick" text-anchor="middle" '
        f'x="{x:.1f}" y="{y + 14}">{tick}</text>'
        for tick in range(0, int(most) + 1, 20)
        for x in [LEFT + tick * WIDTH / most]
    )
    title = "Share of what the full text tells about the next steps, after a compaction of Claude Code"
    height = y + 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 70} {height}" role="img">'
        f"<title>{title}</title><style>{STYLE}</style>"
        f'<rect class="card" width="{LEFT + WIDTH + 70}" height="{height}" rx="8"/>'
        f'<text class="group" x="16" y="26">{title}, %</text>{grid}{"".join(drawn)}</svg>\n'
    )


def _colour(way: str) -> str:
    if way in ("summary+refold",):
        return "mixed"
    return way.partition("@")[0] if way in ("tail", "refold", "refold@half") else "claude"


def _bar(name: str, colour: str, row: dict[str, Any], y: int, scale: float) -> str:
    end, error = row["share"] * scale, row["error"] * scale
    return (
        f'<text x="{LEFT - 10}" y="{y + 13}" text-anchor="end">{name}</text>'
        f'<rect class="{colour}" x="{LEFT}" y="{y + 2}" width="{max(end, 0):.1f}" height="{ROW - 7}" rx="2"/>'
        f'<line class="error" x1="{LEFT + end - error:.1f}" x2="{LEFT + end + error:.1f}" y1="{y + 9.5}" y2="{y + 9.5}"/>'
        f'<text x="{LEFT + end + error + 6:.1f}" y="{y + 14}">{row["share"]:.1f}</text>'
    )


def add_arguments(step: argparse.ArgumentParser) -> None:
    step.set_defaults(step=write)
    step.add_argument(
        "views", type=Path, nargs="+", help="the first is published, the others are compared with it"
    )
    step.add_argument(
        "--scores", type=Path, nargs="+", required=True, help="the first by the published judge"
    )
    step.add_argument("--dry", action="store_true", help="print the tables, write nothing")
