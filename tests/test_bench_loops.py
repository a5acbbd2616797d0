"""The instruments of M3, M13 and M15: worlds of chores, the reader, the meter of caches, and their tables."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from benchmarks import cache_cost, closed_loop, closed_loop_gpu, drift, loop_tables
from benchmarks.chores import Fact, Rule, World, right

from refold.costs import Prices

PORT = Fact("port", ("billing",), r"\b[89]\d{3}\b", "8443", "user")
PATH = "services/rates/config.toml"
LIMIT = Fact("setting", ("rates", "retry_limit"), r"retry_limit (?:=|is) (\d+)", "7", "tool")


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def read(path: str, text: str, id: str = "c1") -> list[dict]:
    call = {"id": id, "type": "function", "function": {"name": "read", "arguments": f'{{"path":"{path}"}}'}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": text},
    ]


def test_a_world_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    assert [chore.message for chore in World(3, 20).chores] == [
        chore.message for chore in World(3, 20).chores
    ]
    assert World(3, 20).chores[0].message != World(4, 20).chores[0].message


@pytest.mark.parametrize("seed", range(4))
def test_a_reader_who_sees_everything_does_every_chore_and_wastes_nothing(seed: int) -> None:
    run = closed_loop.Run(World(seed, 25), "no limit", 10**6, recall=False)
    found = asyncio.run(run.go())
    assert run.scored > 3
    assert (found["success"], found["wasted"], found["losses"]) == (1.0, 0.0, {})


def test_a_reader_knows_only_what_the_view_says() -> None:
    empty = closed_loop.Run(World(1, 25), "tail", 10, recall=False)
    found = asyncio.run(empty.go())
    assert found["success"] == 0.0
    assert {title.partition(":")[0] for title in found["losses"]} == {"request lost"}
    assert found["why"] == {"request lost: the view does not have it": sum(found["losses"].values())}


@pytest.mark.parametrize(
    ("request_", "value"),
    [
        ([user("The staging billing listens on 8443.")], "8443"),
        ([user("billing is on 8001. Thanks."), user("They moved billing, it is on 8443 now.")], "8443"),
        ([user("The port of billing? 8443.")], "8443"),
        ([user("The port of rates is 8443. Deploy rates to staging."), user("Deploy billing.")], None),
        ([user("On staging 8443 is billing and 8111 is rates.")], "8443"),
    ],
)  # fmt: skip
def test_statements_are_read_literally_and_the_newest_counts(request_: list[dict], value: str | None) -> None:
    assert closed_loop.Reader(request_).value(PORT) == value


def test_a_line_of_a_result_is_read_with_the_call_that_it_answers() -> None:
    lines = "pool = 3\nretry_limit = 7\nrows = 4"
    assert closed_loop.Reader(read(PATH, lines)).value(LIMIT) == "7"
    assert closed_loop.Reader(read("services/mailer/config.toml", lines)).value(LIMIT) is None
    recalled = f'<refold-record kind="recall" call="read {PATH}" key="k1">\n{lines}\n</refold-record>'
    assert closed_loop.Reader([user(recalled)]).value(LIMIT) == "7"


def test_a_rule_that_no_sentence_states_is_not_known() -> None:
    rule = Rule("approval", (r"approv", r"over (\d,\d{3})"), "3,000")
    assert closed_loop.Reader([user("Bookings over 3,000 need my approval.")]).rule(rule) == "3,000"
    assert (
        closed_loop.Reader([user("Bookings need my approval. He is over 3,000 days old.")]).rule(rule) is None
    )


def test_the_tail_begins_with_no_result_and_fits() -> None:
    prompt = [(("a",), 50), (("b",), 30), (("c",), 30), (("d",), 30)]
    roles = ["user", "assistant", "tool", "user"]
    assert cache_cost.tail(prompt, roles, 60) == prompt[3:]
    assert cache_cost.tail(prompt, roles, 100) == prompt[1:]


def test_provider_side_clearing_keeps_the_newest_three_results_and_nothing_changes_below_its_trigger() -> (
    None
):
    prompt = [((number,), 100) for number in range(10)]
    roles = ["user", *["assistant", "tool"] * 4, "user"]
    assert cache_cost.cleared(prompt, roles, 1000) == prompt
    edited = cache_cost.cleared(prompt, roles, 999)
    assert [size for _, size in edited] == [100, 100, cache_cost.PLACEHOLDER, *[100] * 7]
    assert edited[2][0] != prompt[2][0]  # a cache of the old prompt ends here


def test_caches_are_counted_as_the_providers_publish_it() -> None:
    prices = Prices(input=1.0, output=10.0, cache_read=0.1, cache_write=1.25)
    first, second = [(("a",), 2_000)], [(("a",), 2_000), (("b",), 500)]
    theirs = cache_cost.Meter("anthropic", prices, [])
    assert theirs.request(first, 0, 0) == pytest.approx(2_000 * 1.25e-6)
    assert theirs.request(second, 10, 100) == pytest.approx(2_000 * 0.1e-6 + 500 * 1.25e-6 + 100 * 10e-6)
    assert theirs.request(second, 301, 0) == pytest.approx(2_500 * 1.25e-6)  # five minutes went by
    assert (theirs.read, theirs.sent) == (2_000, 7_000)
    automatic = cache_cost.Meter("openai", prices, [])
    automatic.request(first, 0, 0)
    assert automatic.request(second, 10, 0) == pytest.approx(1_920 * 0.1e-6 + 580 * 1e-6)  # steps of 128
    short = cache_cost.Meter("openai", prices, [(("a",), 900)])
    assert short.request([(("a",), 900), (("b",), 500)], 10, 0) == pytest.approx(
        1_400 * 1e-6
    )  # 1,024 at least


@pytest.mark.slow
def test_what_folds_say_they_save_is_what_a_replay_saves(tmp_path: Path) -> None:
    pauses = 20, 20, 20, 20, 600  # the cache is kept for 300 seconds
    now, lines = (
        1_763_681_581_000,
        [{"type": "session", "id": "work", "cwd": "/src", "provider": "anthropic"}],
    )
    for number in range(60):
        words = " ".join(f"{number}-{word}" for word in range(90))
        now += 1000 * pauses[number % len(pauses)]
        for role in ("user", "assistant"):
            message = {"role": role, "content": [{"type": "text", "text": words}], "timestamp": now}
            moment = datetime.fromtimestamp(now / 1000, UTC).isoformat()
            lines.append({"type": "message", "timestamp": moment, "message": message})
    log = tmp_path / "pi.jsonl"
    log.write_text("\n".join(map(json.dumps, lines)))
    none, folded = (cache_cost.one((str(log), None, way, 12_000)) for way in ("no folding", "refold"))
    saved = none["anthropic"]["dollars"] - folded["anthropic"]["dollars"]
    assert folded["folds"] > 2
    assert folded["predicted"] == pytest.approx(saved, rel=0.15)


def test_what_is_planted_for_drift_is_all_read_before_anything_is_folded() -> None:
    world = World(5, 20)
    session, planted = drift.conversation(world)
    reader = closed_loop.Reader(drift.engine_of("refold", "").view(session).to_openai())
    kinds = set()
    for kind, thing in drift.checks(world, planted):
        read = reader.value(thing) if isinstance(thing, Fact) else reader.rule(thing)
        assert read == thing.value, thing
        kinds.add(drift.KINDS[kind])
    assert kinds == {"facts", "artefacts", "decisions", "continuation"}


def test_every_preset_and_each_of_its_strategies_is_measured() -> None:
    names = drift.designs()
    assert {"refold", "augment", "pi", "window", "rounds", "layered"} <= set(names)
    assert {"refold: lines", "window: hard_trim", "rounds: compressed", "layered: keep_recent"} <= set(names)


def test_a_form_has_a_blank_for_what_must_be_known_and_answers_are_read_back() -> None:
    forms = [form for chore in World(3, 60).chores if (form := closed_loop_gpu.form(chore))]
    assert len(forms) > 5
    for text, blanks in forms:
        assert text.startswith("Fill in: ")
        assert "?" in text
        assert blanks
        assert all(value not in text for value, who in blanks.values() if who != "rule")
    assert closed_loop_gpu.filled('mail to="Ada Berg" subject=OPS-12 cc=-\nmore') == {
        "to": "Ada Berg",
        "subject": "OPS-12",
        "cc": "-",
    }


def test_what_a_model_writes_is_scored_and_done() -> None:
    run = closed_loop_gpu.ByModel(World(3, 20), "no limit", 10**6)
    for number, chore in enumerate(run.world.chores):
        request = asyncio.run(run.ask(number))
        if request is not None:
            truth = right(chore)
            assert truth
            line = " ".join(f"{name}={closed_loop_gpu.quoted(value or '-')}" for name, value in truth[1])
            assert "Fill in:" in closed_loop_gpu.text_of(request)
            run.take(f"{truth[0]} {line}" if number % 2 else "I cannot.", request)
    assert 0 < run.right < run.scored


@pytest.mark.slow
def test_tables_say_what_was_measured() -> None:
    row = closed_loop.one((1, "no limit", 10**6, False, 25))
    less = closed_loop.table([closed_loop.one((1, "tail", 2_000, False, 60))])
    views = {"refold/2000/no recall": less, "no limit/1000000/no recall": closed_loop.table([row])}
    found = {"views": views, "priced": "x", "windows": [2_000]}
    assert "| no limit | 100 ± 0 | – | 100 ± 0 |" in loop_tables.closed_loop(found)
    assert loop_tables.closed_loop_known(found).count("| refold |") == 1
    assert all(kind in loop_tables.losses(found) for kind in less["why"])
    assert all(kind in loop_tables.loss_examples(found) for kind in less["losses"])
    designs = {"refold": {"1": drift.summary([drift.score((0, "pi", "", 1))], examples=True)}}
    made = loop_tables.drift("kept")({"designs": designs, "seeds": [0, 0], "budget": 8_000})
    assert "| `refold` |" in made


def part(seeds: range, commit: str = "abc") -> dict[str, Any]:
    row = {"success": 1.0, "rules": None, "needs": {}, "losses": {}, "why": {}, "examples": {}}
    row |= dict.fromkeys(("steps", "wasted", "recalls", "tokens", "cached", "dollars"), 0)
    made = {"commit": commit, "python": "3.12", "versions": {}}
    return {"about": {"steps": None}, "made": made, "rows": {str(seed): {"tail/8": row} for seed in seeds}}


def test_parts_of_a_closed_loop_make_one_result_whatever_their_order() -> None:
    found = closed_loop.merged([part(range(9, 12)), part(range(9))])
    assert (found["seeds"], found["views"]["tail/8"]["worlds"]) == ([0, 11], 12)


@pytest.mark.parametrize(
    "parts",
    [
        [part(range(3)), part(range(3, 6), commit="def")],
        [part(range(3)), part(range(2, 6))],
        [part(range(3)), part(range(4, 6))],
    ],
    ids=["another commit", "a world twice", "a world left out"],
)
def test_parts_of_different_runs_make_no_result(parts: list[dict[str, Any]]) -> None:
    with pytest.raises(SystemExit):
        closed_loop.merged(parts)
