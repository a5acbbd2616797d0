"""Presets as classes of settings, and presets that others bring along."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import typing
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from click.testing import CliRunner, Result

import refold
from refold import Engine, Session, presets, registry
from refold import entries as e
from refold.cli import main
from refold.compaction.plan import Plan, Stage
from refold.compaction.strategies.window import HardTrim
from refold.compaction.triggers import MessageCount
from refold.compare.run import VARIANTS
from refold.engine.branch import Branched
from refold.errors import SettingError, UnknownName, UnknownSetting, UsageError, WrongType
from refold.loop import run
from refold.models.scripted import Scripted
from refold.presets import Preset, Settings, about
from refold.registry.configuration import parse_configuration

DOCS = (Path(__file__).parents[2] / "docs" / "presets.md").read_text()

# ── settings ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", presets.NAMES)
def test_settings_are_classes_that_an_engine_takes(name: str) -> None:
    kind = getattr(presets, name.title())
    assert kind is presets.class_of(name)
    assert kind.__doc__
    assert f"`presets.{kind.__name__}`" in DOCS
    chosen = kind(window=50_000)
    assert Engine(chosen).preset.settings == presets.get(name, window=50_000).settings
    assert Engine(chosen).preset.name == name
    fitted = Engine(chosen.fitted(9_000)).preset
    assert fitted.settings == presets.get(name, window=50_000, budget=9_000).settings


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        (lambda: presets.Refold(window="8000"), "window"),
        (lambda: presets.Refold(window=0), "window"),
        (lambda: presets.Refold(words_share=1.5), "words_share"),
        (lambda: presets.Refold(unverified="shout"), "unverified"),
        (lambda: presets.Refold(window=1_000, output_reserve=1_000), "output_reserve"),
        (lambda: presets.Pi(window=100), "reserve_tokens"),
        (lambda: presets.Pi(enabled="yes"), "enabled"),
        (lambda: presets.Window(compact_threshold=5), "compact_threshold"),
        (lambda: presets.get("layered", limits={"read_lines": "many"}), "limits"),
    ],
)
def test_settings_are_checked_however_they_are_given(wrong: Any, key: str) -> None:
    with pytest.raises(SettingError) as caught:
        wrong()
    assert caught.value.key == key


def test_settings_are_what_was_meant() -> None:
    assert presets.Layered(limits={"read_lines": 7}).limits.read_lines == 7
    assert type(presets.Refold(cache_ttl=5).cache_ttl) is float
    assert presets.get("pi", window=None).window == 200_000
    assert presets.make("pi", {"window": "30000", "enabled": "false"}).settings == presets.Pi(
        window=30_000, enabled=False
    )


@pytest.mark.parametrize("nonsense", [42, None, presets.Refold])
def test_what_is_no_preset_is_refused(nonsense: Any) -> None:
    with pytest.raises(WrongType, match="expected a preset"):
        Engine(nonsense)


def test_B15_a_preset_says_what_is_left_free_for_an_answer() -> None:
    def limit(preset: Preset) -> int | None:
        session = Session()
        first = session.append({"role": "assistant", "content": "hello"})
        session.append("left behind")
        model = Scripted(then="## Goal\nShort.", context_window=100_000)
        assert isinstance(
            run(Engine(preset, model=model).branch(session, first.id, summarize=True)), Branched
        )
        return model.requests[0].max_tokens

    assert limit(presets.get("pi", reserve_tokens=3_000)) == 3_000
    assert limit(presets.get("layered")) == 4_096
    assert limit(presets.get("layered", window=8_000)) == 2_000


# ── presets of others ───────────────────────────────────────────────────────────────────────────


class Mine(Settings, frozen=True, kw_only=True):
    """Keeps the newest messages and drops the rest."""

    keep: Annotated[int, about("messages that stay", gt=0)] = 4

    def build(self) -> Preset:
        stage = Stage(MessageCount(self.keep * 2), (HardTrim(self.keep),))
        return Preset(name="mine", settings=self, measure="messages", window=self.window, stages=(stage,))


@pytest.fixture
def mine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_registered", {})
    presets.register("mine", Mine)


def chat(path: Path) -> str:
    messages = [{"role": r, "content": f"{r} {n} " * 60} for n in range(10) for r in ("user", "assistant")]
    path.write_text(json.dumps(messages))
    return str(path)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.usefixtures("mine")
def test_a_registered_preset_has_its_settings_in_the_configuration() -> None:
    assert parse_configuration("[presets.mine]\nkeep = 2\n").presets == {"mine": {"keep": 2}}


@pytest.mark.usefixtures("mine")
def test_a_registered_preset_folds_like_any_other() -> None:
    assert presets.names() == (*presets.NAMES, "mine")
    session, engine = Session(), Engine("mine")
    for number in range(9):
        session.append(f"message {number}")
    assert len(run(engine.prepare(session))) == 4
    [fold] = session.annotations(e.Fold)
    assert (fold.preset, fold.strategy) == ("mine", "hard_trim")
    assert presets.get("mine", keep=2).settings == Mine(keep=2)
    assert presets.get("mine", budget=900).window == 900
    with pytest.raises(UnknownSetting, match="kep"):
        presets.get("mine", kep=2)
    session.append(session.make(e.LearnedWindow, target=session.leaf, model="", tokens=700))
    assert engine.preset_for(session).window == 700


@pytest.mark.usefixtures("mine")
def test_a_registered_preset_is_on_the_command_line_and_in_the_comparison(tmp_path: Path) -> None:
    file = chat(tmp_path / "chat.json")
    assert "Keeps the newest messages" in command("presets").output
    shown = json.loads(command("presets", "mine", "--json").output)["presets"][0]
    meanings = {setting["name"]: setting["meaning"] for setting in shown["settings"]}
    assert list(meanings) == [field.name for field in msgspec.structs.fields(Mine)]
    assert meanings["keep"] == "messages that stay"
    plan = json.loads(command("plan", file, "--preset", "mine", "--set", "keep=6", "--json").output)
    assert (plan["preset"], len(plan["fold"])) == ("mine", 14)
    done = json.loads(command("compact", file, "--preset", "mine", "--json").output)
    assert len(done["view"]["messages"]) == 4
    rows = json.loads(command("compare", file, "--presets", "mine,window", "--json").output)["rows"]
    assert [(row["preset"], row["error"]) for row in rows] == [("mine", None), ("window", None)]
    every = json.loads(command("compare", file, "--json").output)["rows"]
    assert [row["preset"] for row in every] == [*presets.names(), *VARIANTS]


@pytest.mark.usefixtures("mine")
def test_a_registered_preset_is_configured_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFOLD_MINE_KEEP", "7")
    assert registry.preset("mine").settings == Mine(keep=7)


class NoDefault(Settings, frozen=True, kw_only=True):
    size: int


class OtherName(Mine, frozen=True, kw_only=True):
    pass


@pytest.mark.usefixtures("mine")
@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("refold", Mine, "already"),
        ("mine", OtherName, "already"),
        ("yours", OtherName, "called 'mine'"),
        ("yours", Settings, "no build"),
        ("yours", NoDefault, "size"),
        ("yours", dict, "must be a subclass"),
        ("yours", Mine(), "must be a subclass"),
    ],
)
def test_what_is_no_preset_is_not_registered(name: str, kind: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        presets.register(name, kind)
    assert presets.names() == (*presets.NAMES, "mine")
    presets.register("mine", Mine)  # once more is no harm


def documented() -> str:
    """The preset of docs/presets.md, without its registration."""
    [code] = [block for block in re.findall(r"```python\n(.*?)```", DOCS, re.S) if "class Brief" in block]
    return code.replace('register("brief", Brief)\n', "")


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A package with presets, as pip would have installed it."""
    home = tmp_path / "site"
    about = home / "brief_presets-1.0.dist-info"
    about.mkdir(parents=True)
    (home / "brief_presets.py").write_text(documented())
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: brief-presets\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[refold.presets]\nbrief = brief_presets:Brief\nabsent = no_such_module:Nobody\nodd = brief_presets:Stage\n"
    )
    return home


def as_installed(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{home}:{Path(refold.__file__).parents[1]}"
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": path, "HOME": str(home)},
    )


@pytest.mark.slow
def test_an_installed_package_brings_presets_and_a_broken_one_hides_no_other(installed: Path) -> None:
    shown = as_installed(installed, "-m", "refold", "presets", "--json")
    assert [row["name"] for row in json.loads(shown.stdout)["presets"]] == [*presets.NAMES, "brief"]
    assert "'absent' (no_such_module:Nobody) cannot be loaded" in shown.stderr
    assert "'odd' must be a subclass" in shown.stderr
    code = (
        "from refold import Engine, presets, Session; engine, session = Engine('brief'), Session()\n"
        "for n in range(21): session.append(f'message {n}')\n"
        "import refold; print(len(refold.run(engine.prepare(session))))"
    )
    assert as_installed(installed, "-c", code).stdout.strip() == "10"
    compared = as_installed(
        installed,
        "-m",
        "refold",
        "compare",
        chat(installed / "c.json"),
        "--presets",
        "brief,absent",
        "--json",
    )
    rows = json.loads(compared.stdout)["rows"]
    assert [(row["preset"], bool(row["error"])) for row in rows] == [("brief", False), ("absent", True)]


def test_an_unknown_preset_is_named_beside_those_there_are() -> None:
    with pytest.raises(UnknownName, match="'nobody'; there are: refold, augment"):
        presets.get("nobody")


def test_a_plan_names_the_design_it_is_of() -> None:
    session = Session()
    for number in range(50):
        session.append(f"message {number}")
    plan = Engine(presets.Window()).plan(session, force=True)
    assert isinstance(plan, Plan)
    assert plan.preset == "window"


def own_text(session: object) -> str:
    return "own"


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("refold", {"soft": 0.5, "fallback": "digest"}),
        (
            "augment",
            {"params": '{"cache_ttl_ms": 9}', "min_tail_exchanges": 1, "tool_kinds": {"peek": "read"}},
        ),
        ("pi", {"models": {"gpt-4o": {"keep_recent_tokens": 5}}, "reserve_tokens": 1_000}),
        ("window", {"language": "zh", "max_history": 60}),
        ("rounds", {"workspace": own_text, "line_tokens": 20}),
        ("layered", {"rules": {"bash": own_text}, "limits": {"read_lines": 3}, "archive_prompt": "So."}),
    ],
)
def test_another_window_keeps_every_setting(name: str, given: dict[str, typing.Any]) -> None:
    """A window that a refusal taught, or that a caller replaced: functions and explicit values stay."""
    preset = presets.get(name, **given)
    for other in (preset.resized(20_000), preset.settings.fitted(150_000).build()):
        before, after = (msgspec.structs.asdict(x.settings) for x in (preset, other))
        changed = {key for key in before if before[key] != after[key]}
        assert not changed & given.keys()
        assert other.window != preset.window


@pytest.mark.parametrize("budget", [-5, 0, 2**60])
@pytest.mark.parametrize("name", presets.NAMES)
def test_a_budget_that_is_no_number_of_tokens_is_called_budget(name: str, budget: int) -> None:
    with pytest.raises(SettingError, match=r"^budget: "):
        presets.get(name, budget=budget)


def test_a_budget_holds_for_every_model() -> None:
    given = {"big": {"window": 1_000_000, "reserve_tokens": 50_000}, "small": {"keep_recent_tokens": 5}}
    fitted = presets.get("pi", budget=8_000, models=given)
    for name, figures in (("big", (8_000, 2_000, 4_000)), ("small", (8_000, 2_000, 5))):
        own = fitted.for_model(lambda name=name: name).settings
        assert isinstance(own, presets.Pi)
        assert (own.window, own.reserve_tokens, own.keep_recent_tokens) == figures


@pytest.mark.parametrize("name", presets.NAMES)
def test_another_model_writes_the_summaries_of_any_preset(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Scripted(then="## Goal\nShort.", name="a:small")
    monkeypatch.setattr(Engine, "find_model", lambda _, name: {"a:small": small}[name])
    chat = Scripted(then="Yes.", name="a:chat")
    engine = Engine(presets.get(name, summary_model="a:small"), model=chat)
    assert (engine.summariser.name, engine.model) == ("a:small", chat)


class Wordy(presets.Refold, frozen=True, kw_only=True):
    """More of the user's words."""

    words_share: float = 0.25

    def build(self) -> Preset:
        return dataclasses.replace(super().build(), name="wordy")


def test_an_overridden_setting_keeps_its_meaning_and_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "_registered", {})
    presets.register("wordy", Wordy)

    def setting(name: str) -> dict[str, Any]:
        [preset] = json.loads(CliRunner().invoke(main, ["presets", name, "--json"]).output)["presets"]
        return next(row for row in preset["settings"] if row["name"] == "words_share")

    assert setting("refold")["meaning"]
    assert setting("wordy") == {**setting("refold"), "default": 0.25}
