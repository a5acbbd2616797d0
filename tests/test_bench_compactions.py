"""The instrument of M12: what a log says, which names are needed, and how views are scored."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from benchmarks import compactions, compactions_table, judge_gpu

from refold import messages as m


def log(path: Path, *records: dict) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


def reply(number: int, *blocks: dict, **more) -> dict:
    return {"type": "assistant", "message": {"id": f"m{number}", "content": list(blocks)}, **more}


def text(said: str) -> dict:
    return {"type": "text", "text": said}


def use(name: str, number: int, **arguments) -> dict:
    return {"type": "tool_use", "id": f"c{number}", "name": name, "input": arguments}


def result(number: int, said: str, **more) -> dict:
    content = [{"type": "tool_result", "tool_use_id": f"c{number}", "content": said, **more}]
    return {"type": "user", "message": {"content": content}}


def user(said: str, **more) -> dict:
    return {"type": "user", "message": {"content": said}, **more}


BOUNDARY = {"type": "system", "subtype": "compact_boundary"}


def test_a_log_is_read_with_replies_that_were_logged_in_pieces_and_its_compactions(tmp_path: Path) -> None:
    path = log(
        tmp_path / "a.jsonl",
        user("Fix it."),
        reply(1, text("I look.")),
        reply(1, use("Read", 1, file_path="/w/a.py")),
        result(1, "x = 1"),
        reply(9, text("elsewhere"), isSidechain=True),
        user("a note of the program", isMeta=True),
        BOUNDARY,
        user("The summary.", isCompactSummary=True),
        user("Go on."),
        reply(2, text("Done.")),
        user("a summary without a compaction", isCompactSummary=True),
    )
    said, cuts = compactions.read(path)
    assert [(one.role, one.text) for one in said] == [
        ("user", "Fix it."),
        ("assistant", "I look."),
        ("tool", "x = 1"),
        ("user", "Go on."),
        ("assistant", "Done."),
    ]
    assert [call.arguments for call in said[1].calls] == [{"file_path": "/w/a.py"}]
    assert cuts == [(3, "The summary.")]


def test_the_files_seen_last_are_shown_as_they_were_seen_last() -> None:
    read = [
        one
        for number in range(6)
        for one in (
            m.assistant("", m.call(f"r{number}", "Read", {"file_path": f"/w/{number}.py"})),
            m.result(f"r{number}", f"text {number}"),
        )
    ]
    said = [
        *read,
        m.assistant("", m.call("w", "Write", {"file_path": "/w/2.py", "content": "written"})),
        m.assistant("", m.call("f", "Read", {"file_path": "/w/gone.py"})),
        m.result("f", "no such file", is_error=True),
        m.assistant("", m.call("l", "Read", {"file_path": "/w/large.py"})),
        m.result("l", "word " * 6_000),
    ]
    shown = [said.split("\n")[1:3] for _, said in compactions.files_seen(said)]
    assert shown == [
        ["Read /w/3.py:", "text 3"],
        ["Read /w/4.py:", "text 4"],
        ["Read /w/5.py:", "text 5"],
        ["Read /w/2.py:", "written"],
        ["Read /w/large.py:", "(too large to include)"],
    ]


def long_log(
    path: Path, *, before: int = 60, summary: str = "parser_003.py, read_settings; line 10030. " * 60
) -> Path:
    """A session with one compaction, and 45 replies after it."""
    earlier = [
        record
        for number in range(before)
        for record in (
            reply(
                number,
                text(f"Step {number}."),
                use("Edit", number, file_path=f"/w/src/parser_{number:03}.py"),
            ),
            result(number, f"changed; see https://host.example/page.html and line {1000 + number}"),
        )
    ]
    later = [
        reply(
            100 + number,
            text(
                f"I call read_settings for line {1000 + number}, not {7000 + number}. " + "And so on. " * 10
            ),
            use("Read", 100 + number, file_path=f"src/parser_{number:03}.py"),
        )
        for number in range(45)
    ]
    told = user(summary, isCompactSummary=True)
    return log(
        path,
        user("Use read_settings in /w/src/parser_001.py"),
        *earlier,
        BOUNDARY,
        told,
        user("go on"),
        *later,
    )


def test_names_are_needed_that_stood_before_and_are_used_in_the_next_forty_replies(tmp_path: Path) -> None:
    (one,) = compactions.compactions(long_log(tmp_path / "s.jsonl").parent)
    assert (one.case.name, one.at) == ("s@121", 121)
    wanted = compactions.needed(one)
    assert wanted == {
        "paths": {f"parser_{number:03}.py" for number in range(40)},
        "identifiers": {"read_settings", *(f"parser_{number:03}" for number in range(40))},
        "numbers": {str(1000 + number) for number in range(40)},
        "opened files": {f"parser_{number:03}.py" for number in range(40)},
    }
    assert compactions.kept([one.summary], wanted) == {
        "paths": 1,
        "identifiers": 2,
        "numbers": 0,
        "opened files": 1,
    }


def test_a_name_counts_as_a_word_of_its_own_and_after_an_escaped_line_end() -> None:
    wanted = {"identifiers": {"read_all"}, "numbers": {"1000"}}
    assert compactions.kept([("user", "spread_all, 10001")], wanted) == {"identifiers": 0, "numbers": 0}
    assert compactions.kept([("user", r'{"a": "\nread_all\n1000"}')], wanted) == {
        "identifiers": 1,
        "numbers": 1,
    }


def test_of_a_summary_the_sections_are_taken_that_refolds_prompt_asks_for() -> None:
    sections = {
        "1. Primary Request and Intent": "Bookings must not overlap.\n   2. not a section",
        "3. Files and Code Sections": "- `berths.py`",
        "6. All User Messages (2)": '- "go on"',
        "9. Optional Next Step": "Run the tests.",
    }
    written = "\n".join(f"{title}:\n   {body}" for title, body in sections.items())
    frame = "This session is being continued …\nAnalysis:\n1. Thoughts:\n\nSummary:\n{}\nPlease continue the conversation from where we left it off."
    asked = compactions.as_asked_for(frame.format(written))
    assert asked == "\n".join(f"{title}:\n   {body}" for title, body in sections.items() if title[0] in "19")
    assert compactions.as_asked_for("A summary in prose.") == "A summary in prose."


def test_short_sessions_and_short_summaries_are_no_cases(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    assert len(compactions.compactions(long_log(path, before=50).parent)) == 1
    assert compactions.compactions(long_log(path, before=49).parent) == []
    assert compactions.compactions(long_log(path, summary="short").parent) == []


@pytest.mark.slow
def test_every_view_fits_its_size_and_the_file_of_views_is_repeatable(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(compactions.results, "surroundings", lambda *_: {})
    long_log(tmp_path / "s.jsonl")
    long_log(tmp_path / "t.jsonl")
    for name in ("a.json", "b.json.gz"):
        arguments = [
            "views",
            "--data",
            str(tmp_path),
            "--sets",
            "compactions",
            "--out",
            str(tmp_path / "out" / name),
        ]
        compactions.main([*arguments, "--ways", "tail,refold,control: another session"])
    first, second = (judge_gpu.read(tmp_path / "out" / name) for name in ("a.json", "b.json.gz"))
    assert first["messages"] == second["messages"]
    assert first["cases"] == second["cases"]
    (case, _) = first["cases"]
    for view, size in case["sizes"].items():
        if "@" in view:
            assert size <= case["budgets"][view.partition("@")[2]], view
    assert {"none", "full", "claude", "claude+files", "refold@half", "refold@files", "tail@summary"} <= set(
        case["views"]
    )


def views_file(path: Path, label: str, view: str) -> Path:
    said = [["user", view], ["assistant", "next"], ["user", "all"]]
    cases = [
        {
            "set": "compactions",
            "case": "s@1",
            "after": [1],
            "views": {"none": [], "full": [2], "refold@files": [0]},
        }
    ]
    path.write_text(json.dumps({"label": label, "messages": said, "cases": cases}), encoding="utf-8")
    return path


def test_equal_texts_of_several_checkouts_are_judged_once_and_a_stopped_run_goes_on(tmp_path: Path) -> None:
    files = [
        views_file(tmp_path / f"{label}.json", label, text)
        for label, text in {"a": "one", "b": "two"}.items()
    ]
    asked: list[str] = []

    def score(view, after, old) -> judge_gpu.Scored | None:
        asked.append("".join(text for _, text in view))
        return judge_gpu.Scored(float(len(asked))) if asked[-1] != "two" else None

    out = tmp_path / "scores.json"
    judge_gpu.judge(files, score, out, {"judge": "x"})
    assert asked == ["", "all", "one", "two"]
    rows = {(row["label"], row["view"]): row["nats"] for row in judge_gpu.read(out)["rows"]}
    assert rows["a", "full"] == rows["b", "full"] == 2.0
    assert rows["b", "refold@files"] is None
    again = tmp_path / "again.json"
    judge_gpu.judge(files, score, again, {"judge": "x"}, known=[out])
    assert len(asked) == 4
    assert judge_gpu.read(again)["rows"] == judge_gpu.read(out)["rows"]


NATS: compactions_table.Nats = {
    # By hand: of 1.0 nats the view tells 0.5, and of 0.5 nats 0.4: session a has (0.5 + 0.4) / 1.5 = 60 %.
    "a@1": {"none": 2.0, "full": 1.0, "claude+files": 1.6, "tail@files": 1.7, "refold@files": 1.5},
    "a@2": {"none": 1.5, "full": 1.0, "claude+files": 1.0, "tail@files": 1.2, "refold@files": 1.1},
    "b@1": {"none": 2.0, "full": 1.0, "claude+files": 1.2, "tail@files": 1.2, "refold@files": 1.0},
    # Did not fit: counts as no history.
    "c@1": {"none": 2.0, "full": 1.0, "claude+files": 1.5, "tail@files": 1.8},
    # Nothing to tell; too long for the judge.
    "d@1": {"none": 1.1, "full": 1.0, "claude+files": 1.0, "tail@files": 1.0, "refold@files": 1.0},
    "e@1": {"none": 2.0, "full": 1.0, "claude+files": None, "tail@files": 1.0, "refold@files": 1.5},
}


def test_shares_by_hand() -> None:
    assert compactions_table.shares(NATS, "refold@files") == pytest.approx(
        {"a": 60, "b": 100, "c": 0, "e": 50}
    )
    assert compactions_table.shares(NATS, "claude+files") == pytest.approx({"a": 60, "b": 80, "c": 50})


def test_a_difference_is_taken_session_by_session_on_the_cases_that_both_have() -> None:
    ahead = compactions_table.difference(NATS, "refold@files", "claude+files")
    values = [0.0, 20.0, -50.0]  # a, b, c
    mean = sum(values) / 3
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / 2 / 3)
    assert ahead == (round(mean, 1), round(error, 1), 2, 4)


def test_another_checkout_is_compared_case_by_case() -> None:
    rows = [
        {
            "label": label,
            "set": "compactions",
            "case": case,
            "view": view,
            "nats": nats - (0.1 if label == "b" and "@" in view else 0),
        }
        for label in ("a", "b")
        for case, row in NATS.items()
        for view, nats in row.items()
        if nats is not None
    ]
    found = compactions_table.compared({"rows": rows}, "a", "b")["compactions"]["refold@files"]
    # Sessions a, b and e tell 0.1 more a case (of 0.75, 1 and 1 nats), c still does not fit.
    assert found["difference"] == {"mean": 8.3, "error": pytest.approx(2.9, abs=0.1), "better": 4, "cases": 5}


def test_the_tables_name_the_judge_and_the_chart_is_a_picture(tmp_path: Path) -> None:
    import xml.etree.ElementTree as tree

    file = {
        "label": "base",
        "made": {"commit": "abc"},
        "cases": [
            {
                "set": "compactions",
                "case": case,
                "session": case[0],
                "tokens": 100_000,
                "budgets": {},
                "needed": {"paths": 4},
            }
            | {"sizes": dict.fromkeys(row, 8_000), "kept": {view: {"paths": 1} for view in row}}
            for case, row in NATS.items()
        ],
    }
    extra = {"claude": 1.7, "tail@summary": 1.8, "refold@summary": 1.6, "refold@half": 1.6}
    rows = [
        {"label": "base", "set": "compactions", "case": case, "view": view, "nats": nats}
        for case, row in NATS.items()
        for view, nats in {**row, **extra}.items()
    ]
    for case in file["cases"]:
        case["sizes"] |= dict.fromkeys(extra, 3_000)
    scores = {"judge": "Qwen", "window": 32_768, "device": "a GPU", "date": "2026-01-01", "rows": rows}
    found = json.loads(json.dumps(compactions_table.compactions([file], [scores])))
    assert found["left_out"] == ["d@1"]
    shown = {name: table(found) for name, table in compactions_table.TABLES.items()}
    assert "| 52.5 ± 20.6 (2/4; 4 fit) |" in shown["compactions"]
    assert "Window of the judge: 32,768." in shown["compactions"]
    assert "| Claude Code | 25 |" in shown["compactions-names"]
    picture = tree.fromstring(compactions_table.chart(found))
    assert "prefers-color-scheme: dark" in "".join(picture.itertext())
