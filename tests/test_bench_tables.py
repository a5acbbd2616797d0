"""Figures in the documents are those of the stored results, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from benchmarks import __main__ as bench
from benchmarks import closed_loop, loop_tables, results, tables


@pytest.mark.parametrize("path", tables.documents(), ids=lambda path: path.name)
def test_documents_say_what_the_results_say(path) -> None:
    text = path.read_text(encoding="utf-8")
    found = results.read()
    for name, made in re.findall(r"<!-- bench:([\w-]+) -->\n(.*?)<!-- /bench -->", text, re.S):
        assert made.strip() == tables.table(name, found).strip(), (
            f"`make bench` or `python -m benchmarks --tables` ({name})"
        )


def test_every_table_is_shown_somewhere() -> None:
    shown = {
        name
        for path in tables.documents()
        for name in re.findall(r"<!-- bench:([\w-]+) -->", path.read_text())
    }
    assert shown == set(tables.TABLES)


def test_every_result_has_a_table() -> None:
    shown = {need for needs, _ in (tables.TABLES | tables.PRINTED).values() for need in needs}
    assert set(results.read()) - shown == set()


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", tables.PRINTED)
def test_a_table_that_no_page_shows_can_be_printed(name: str, capsys) -> None:
    assert bench.main(["--print", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].count("|") == lines[1].count("|") == lines[2].count("|") > 2
    assert bench.main(["--print"]) == 0
    assert name in capsys.readouterr().out.split()


def test_a_table_that_is_not_there_is_an_error(capsys) -> None:
    assert bench.main(["--print", "nonsense"]) == 2
    assert "no such table: nonsense" in capsys.readouterr().err


def test_a_changed_figure_is_noticed_and_rewriting_repeats_itself() -> None:
    result = {
        "rounds": [10],
        "everything": [2000],
        "strategies": {"compressed": {"ours": [1], "published": [2]}},
    }
    found = {"rounds": {"made": results.read()["rounds"]["made"], "result": result}}
    text = "a\n<!-- bench:rounds -->\n| 99 |\n<!-- /bench -->\nb <!-- bench: no table\n"
    once = tables.rewritten(text, found)
    assert "| 99 |" not in once
    assert "2,000" in once
    assert once.startswith("a\n<!-- bench:rounds -->\n")
    assert tables.rewritten(once, found) == once


def test_a_measure_that_is_missing_says_so() -> None:
    assert tables.table("pairs", {}) == tables.NOT_YET
    with pytest.raises(KeyError, match="no table"):
        tables.table("nonsense", {})


def test_a_peer_that_failed_has_a_row() -> None:
    peers = {
        "engine": {
            "gone": {"error": "ERROR: no matching | distribution"},
            "ill": {"rows": {"Ill": {"error": "KeyError: 'x'"}}},
        },
        "pairs": {"gone": {"error": "cannot install"}, "ill": {"rows": {"Ill": {"error": "KeyError"}}}},
    }
    ours = {"sizes": {}}
    assert "gone | not measured: ERROR: no matching   distribution" in tables.engine(ours, peers)
    assert "Ill | failed: KeyError" in tables.engine(ours, peers)
    assert "gone | not measured: cannot install" in tables.pairs(peers)


def test_results_say_where_they_come_from() -> None:
    paths = sorted(results.FOLDER.glob("*.json"))
    assert len(paths) >= 9
    for path in paths:
        made = json.loads(path.read_text(encoding="utf-8"))["made"]
        wanted = {"date", "commit", "python", "versions", "machine", "load_before", "load_after", "seconds"}
        assert wanted | {"script", "data", "judge"} <= set(made), path.name


def test_every_measure_has_a_source() -> None:
    from benchmarks.__main__ import MEASURES

    assert set(MEASURES) - set(results.SOURCES) == set()


def test_no_table_is_older_than_one_release() -> None:
    """`make bench` measures anew."""
    found = results.read()
    ages = {name: results.releases_behind(one["made"]["versions"]["refold"]) for name, one in found.items()}
    assert {name: age for name, age in ages.items() if age > 1} == {}


def test_releases_are_counted() -> None:
    known = ["0.3.0", "0.2.0", "0.1.0"]
    assert [results.releases_behind(one, known) for one in known] == [0, 1, 2]
    assert results.releases_behind(results.releases()[0]) == 0
    assert results.releases_behind("not installed", ["0.3.0"]) > 1


def test_below_a_table_stands_where_its_figures_come_from() -> None:
    found = results.read()
    for name, (needs, _) in tables.TABLES.items():
        lines = tables.table(name, found).splitlines()
        for need in needs:
            made = found[need]["made"]
            line = next(line for line in lines if line.startswith(f"*`{made['script']}`"))
            assert all(
                part in line
                for part in (made["date"], made["versions"]["refold"], made["data"], made["judge"])
            )
            assert made["machine"]["system"] in line


def test_what_is_written_down_says_where_it_comes_from(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.write("rounds", {}, seconds=1, before=[], quick=False)
    results.write("continuation_full", {"judge": "another"}, seconds=1, before=[], quick=False)
    found = results.read(tmp_path)
    assert found["rounds"]["made"]["script"] == "python -m benchmarks rounds"
    assert "judge another" in results.provenance(found["continuation_full"])
    results.write("compactions", {"judge": {"judge": "a third"}}, seconds=1, before=[], quick=False)
    assert "judge a third" in results.provenance(results.read(tmp_path)["compactions"])


def test_a_machine_without_the_transcripts_says_so(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(bench, "runner", lambda name: lambda: {"skipped": "the transcripts are not here"})
    monkeypatch.setattr(bench.tables, "rewrite_all", lambda: None)
    assert bench.main(["tokens"]) == 0
    assert "NOT MEASURED  tokens" in capsys.readouterr().err


def ahead(found: dict[str, Any], view: str, other: str, window: int) -> str:
    """By how many points, world by world, without recall."""
    pair = [found["views"][f"{name}/{window}/no recall"]["by_world"] for name in (view, other)]
    mean, error = closed_loop.figure([100 * (a - b) for a, b in zip(*pair, strict=True)])
    return f"{mean:.1f} ± {error:.1f}"


def mean_of(found: dict[str, Any], first: int, last: int) -> str:
    return loop_tables.share(
        closed_loop.figure(found["views"]["refold/8000/no recall"]["by_world"][first:last])
    )


def figures_in_sentences() -> list[tuple[str, str]]:
    """Page, and what it says in a sentence instead of a table, as the results say it."""
    found = {name: one["result"] for name, one in results.read().items()}
    small, large = (found["cache_cost"]["ways"][f"refold/{window}"] for window in (50_000, 200_000))
    costs = {name: 100 * row["anthropic"]["share"][0] for name, row in found["cache_cost"]["ways"].items()}
    off = [100 * row["predicted"] / row["real"] - 100 for row in (small, large)]
    check, kept = found["verification"], found["retention"]["m1"]
    dense = kept["views"]["digest, dense"]
    counted = [row["o200k"] for row in found["tokens"]["sources"].values()]
    bare, anchored = ([100 * row[kind]["mean"] for row in counted] for kind in ("before", "anchored"))
    more = {
        (other, window): ahead(found["closed_loop"], other, "refold", window)
        for other, window in (("layered", 4_000), ("layered", 8_000), ("rounds", 4_000))
    }
    return [
        ("benchmarks", f"`layered` does {more['layered', 4_000]} points more chores at 4,000 tokens (difference world by world) and {more['layered', 8_000]} more at 8,000, `rounds` {more['rounds', 4_000]} more at 4,000"),
        ("benchmarks/chores", f"there refold does {mean_of(found['closed_loop'], 9, 100)} % of the chores at 8,000 tokens (seeds 0 to 8: {mean_of(found['closed_loop'], 0, 9)})"),
        ("benchmarks", f"refold costs {costs['refold/50000']:.0f} % of no folding, and {['no session', 'one session'][small['anthropic']['dearer']]} became dearer"),
        ("benchmarks", f"saves {100 - costs['refold/200000']:.0f} %; `window` saves {100 - costs['window/200000']:.0f} % and keeps least, Anthropic's own clearing of old tool results {100 - costs['provider clears/200000']:.0f} %"),
        ("benchmarks", f"those of refold are {off[0]:.0f} % too high in the small window and {off[1]:.0f} % in the large one"),
        ("benchmarks", f"Of {check['fabrications']['planted']:,} fabrications planted in true summaries the check finds {check['fabrications']['caught']} %, and it marks {check['true_claims']['percent']} % of true claims"),
        ("benchmarks", f"off by {min(anchored):.1f} to {max(anchored):.1f} % once the provider has counted one"),
        ("benchmarks", f"answers to {kept['questions']} questions about {['no', 'one', 'two', 'three', 'four', 'five'][len(kept['dialogues'])]} long dialogues"),
        ("benchmarks", f"first 5, 20 and 100 hits, {found['recall']['dialogue']['questions']} questions"),
        ("digest", f"1,000 tokens hold {dense['1000']['score']:.0f} % of the answers of long dialogues and 8,000 hold {dense['8000']['score']:.0f} %; the full text holds {kept['ceiling']['score']:.0f} %"),
        ("tokens", f"from {min(bare):.0f}–{max(bare):.0f} % to {min(anchored):.1f}–{max(anchored):.1f} %"),
    ]  # fmt: skip


@pytest.mark.parametrize(("page", "sentence"), figures_in_sentences())
def test_sentences_say_what_the_results_say(page: str, sentence: str) -> None:
    text = (results.ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert sentence in " ".join(text.split())


def test_a_benchmark_imports_only_what_exists() -> None:
    folder = results.ROOT / "benchmarks"
    sources = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))
    named = {*re.findall(r"^\s*from benchmarks\.(\w+)", sources, re.M), *bench.MEASURES}
    assert named and not [
        name for name in named if not [*folder.glob(f"{name}.py"), *folder.glob(f"{name}/")]
    ]
