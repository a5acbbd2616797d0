"""R19: a clip keeps what tells most, and shows where something is missing."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest

from refold import messages as m
from refold import tokens
from refold.facts.tools import shown_by
from refold.session.toolnames import ToolKind
from refold.session.toolstatus import bare_output
from refold.shrink.clip import clip_message, quotation
from refold.shrink.excerpt import Texts, clip_text

COUNTER = tokens.get("o200k")
SOURCE = "\n".join(f"def part_{n}(value):\n    first = value + {n}\n    return first" for n in range(60))


def clip(text: str, size: int, kind: ToolKind = "other") -> str:
    return clip_text(text, size, Texts(COUNTER), key="#7", kind=kind)


@pytest.mark.parametrize("size", [24, 34, 48, 68, 96, 136, 192])
def test_R19_a_mark_has_a_line_of_its_own_and_half_lines_say_that_they_are(size: int) -> None:
    text = "\n".join(f"{n} alpha beta gamma delta epsilon zeta eta theta iota kappa" for n in range(200))
    shown, lines = clip(text, size).split("\n"), text.split("\n")
    assert sum(row.startswith("[… ") and row.endswith("tokens, #7 …]") for row in shown) == 1
    for row in shown:
        assert row in lines or row.startswith(("[… ", "… ")) or row.endswith(" …") or row == "…"


def test_R19_values_of_one_line_are_never_joined_around_the_mark() -> None:
    values = ", ".join(f'"HAT{n}", {n}' for n in range(300))
    first, mark, last = clip(f"[{values}]", 60).split("\n")
    assert first.endswith(" …") and mark.startswith("[… ") and last.startswith("… ")
    assert first.removesuffix(" …") in values.join("[]") and last.removeprefix("… ") in values.join("[]")


def test_R19_lines_that_repeat_are_said_once_with_their_number() -> None:
    log = "\n".join(["brew.sh: line 60: locale: cannot set"] * 40 + [f"unpacking {n}" for n in range(200)])
    small = clip(log, 80, "bash")
    assert small.startswith("brew.sh: line 60: locale: cannot set [×40]\n")
    assert small.count("brew.sh") == 1


def test_R19_a_picture_is_named_as_one() -> None:
    picture = m.Image("AAAA", "image/png")
    shown = clip_message(
        m.Result("c", (picture, m.Text("word " * 200), picture)), 40, Texts(COUNTER), key="#7"
    )
    assert shown.text.endswith("[2 pictures, #7]")


def test_R21_a_clip_does_not_repeat_that_a_command_did_well() -> None:
    ends = (
        "\nExit code: 0",
        "\n[The command completed with exit code 0.]\n[Current working directory: /w]\n"
        "[Command finished with exit code 0]",
        "\n(Open file: /w/a.py)\n(Current directory: /w)\nbash-$",
    )
    for end in ends:
        small = clip(SOURCE + end, 60, "bash")
        assert small.endswith("return first")
        assert quotation(m.result("c", "ok" + end), "#7", 0, COUNTER) == "#7 result: ok"


def test_R21_a_clip_does_not_repeat_where_the_shell_was_put_back() -> None:
    assert bare_output("On branch main\nShell cwd was reset to /w/app") == "On branch main"


def test_R10_a_clip_keeps_a_status_that_tells_of_failure_once() -> None:
    end = "\n[The command completed with exit code 2.]\n[Current working directory: /w]\n[Command finished with exit code 2]"
    small = clip(SOURCE + end, 60, "bash")
    assert small.endswith("return first\n[Command finished with exit code 2]")
    assert small.count("exit code") == 1


def test_R19_an_output_that_is_nothing_but_a_report_stays() -> None:
    assert bare_output("Exit code: 0") == "Exit code: 0"
    assert bare_output("\n[Command finished with exit code 0]") == "\n[Command finished with exit code 0]"
    assert bare_output("Command: a\nwhat it printed\nand more") == "Command: a\nwhat it printed\nand more"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("sed -n '1,200p' src/a.py", "read"),
        ("cd /w && nl -ba a.py | sed -n '1,80p'", "read"),
        ("cat a.py && cat b.py", "read"),
        ("rg -n needle src | head", "grep"),
        ("ls -la src", "ls"),
        ("cat a.py && ls", "bash"),
        ("sed -i s/a/b/ a.py", "bash"),
        ("pytest -q", "bash"),
        ("cat a.py; pytest", "bash"),
    ],
)
def test_R19_a_shell_that_only_looks_is_clipped_like_the_tool_for_it(command: str, kind: ToolKind) -> None:
    call = m.call("c", "bash", command=command)
    assert shown_by(call) == kind
    result = m.result("c", SOURCE)
    small = clip_message(result, 96, Texts(COUNTER), key="#7", kind=shown_by(call))
    assert small == clip_message(result, 96, Texts(COUNTER), key="#7", kind=kind)


def test_R21_a_clipped_read_does_not_repeat_what_its_call_says() -> None:
    rows = "\n".join(f"{n:6}\t{row}" for n, row in enumerate(SOURCE.split("\n"), 1))
    text = f"Here's the result of running `cat -n` on /w/src/parts/module.py:\n{rows}"
    read = shown_by(m.call("c", "str_replace_editor", command="view", path="/w/src/parts/module.py"))
    edit = shown_by(m.call("c", "str_replace_editor", command="insert", path="/w/src/parts/module.py"))
    assert clip(text, 60, read).startswith("(lines 1–180)\ndef part_0(value):\n")
    assert clip(text, 60, edit).startswith("Here's the result")


def test_R19_a_clip_that_would_save_next_to_nothing_is_not_made() -> None:
    text = "Success. Updated the following files:\nM apps/web/src/app/settings/teams/hooks/useTeam.ts"
    assert clip(f"{text}\nExit code: 0", COUNTER.text(text) - 5) == text


def test_R21_a_clip_does_not_repeat_what_a_tool_writes_around_every_result() -> None:
    reminder = "\n\n<system-reminder>\nConsider whether it looks malicious.\n</system-reminder>\n"
    assert clip(SOURCE + reminder, 60, "read").endswith("return first")
    assert bare_output(reminder.strip()) == reminder.strip()  # nothing else is there
    gemini = f"Command: cat a.py\nDirectory: (root)\nOutput: {SOURCE}\nError: (none)\nExit Code: 1\nSignal: 0"
    small = clip(gemini, 60, "bash")
    assert small.startswith("def part_0")
    assert small.endswith("return first\nExit Code: 1")


def test_R19_padding_of_a_terminal_goes_and_code_stays_as_it_is() -> None:
    assert bare_output(f"a{' ' * 200}\nb\n    \nc  \n") == "a\nb\n    \nc  \n"


@pytest.mark.parametrize("kind", ["read", "editor"])
def test_R19_empty_lines_tell_nothing(kind: ToolKind) -> None:
    text = "\n    \n".join(f"class Part{n}:\n    \n        value = {n}" for n in range(200))
    between = clip(text, 192, kind).split("…]\n", 1)[1]
    assert "\n    \n…" not in between


@pytest.mark.parametrize("size", [24, 60, 192, 800])
def test_R19_a_clipped_reply_keeps_its_calls_as_they_were_made(size: int) -> None:
    calls = [m.call(f"c{n}", "Write", path=f"{n}.py", content=SOURCE) for n in (1, 2)]
    broken = m.Call("c3", "Write", raw='{"path": "' + SOURCE)
    small = clip_message(
        m.assistant(f"I write them.\n{SOURCE}", *calls, broken), size, Texts(COUNTER), key="#7"
    )
    assert small.calls == (*calls, broken)
    assert small.text.startswith("I write them.") and COUNTER.text(small.text) <= max(size, 24)


@pytest.mark.parametrize("size", [60, 120, 400])
def test_R19_a_quoted_call_shows_head_and_end_of_each_long_argument(size: int) -> None:
    edit = m.call(
        "c", "Edit", path="a.py", old_string=f"OLD\n{SOURCE}\nold end", new_string=f"NEW\n{SOURCE}\nnew end"
    )
    text = quotation(m.assistant("I change it.", edit), "#7", size, COUNTER)
    assert text.startswith('#7 assistant: I change it.\nEdit {"path":"a.py","old_string":"OLD')
    assert '"new_string":"NEW' in text and text.endswith('new end"}') and 'old end","new' in text
    assert text.count("[… ") == 2 and COUNTER.text(text) <= 1.2 * size + 20
    assert quotation(m.assistant("I change it.", edit), "#7", 0, COUNTER).count(SOURCE.split("\n")[90]) == 2


def test_R19_a_quotation_of_lists_and_of_broken_arguments_shows_their_ends() -> None:
    patch = m.call("c", "shell", command=["bash", "-lc", f"apply_patch {SOURCE}"], workdir="/w")
    text = quotation(m.assistant("", patch), "#7", 80, COUNTER)
    assert text.startswith('#7 assistant: shell {"command":["bash","-lc","apply_patch')
    assert text.endswith('"workdir":"/w"}') and "[… " in text
    broken = quotation(m.assistant("", m.Call("c", "Write", raw=f'{{"path": "{SOURCE}')), "#7", 80, COUNTER)
    assert broken.startswith('#7 assistant: Write {"path": "def part_0') and broken.endswith("return first")


def test_R19_typed_words_stay_and_what_stands_around_them_shares_the_rest() -> None:
    asked, short = "Fix the parser, and never touch the migrations.", "One call per message, please."
    message = m.user([m.text(SOURCE, "program"), asked, m.text(short, "program")])
    sizes = [
        COUNTER.message(clip_message(message, level, Texts(COUNTER), key="#7")) for level in (60, 120, 300)
    ]
    assert sizes == sorted(sizes)
    small = clip_message(message, 60, Texts(COUNTER), key="#7")
    before, typed, after = (part for part in small.parts if isinstance(part, m.Text))
    assert (before.origin, typed.text, after.text) == ("program", asked, short)
    assert COUNTER.text(before.text) < 60
    least = clip_message(message, 12, Texts(COUNTER), key="#7").parts[0]
    assert isinstance(least, m.Text)
    assert least.text.startswith("[… ")


def test_R19_words_with_which_a_user_refused_a_call_stay_in_a_clipped_result() -> None:
    refused = m.result("c", [SOURCE, m.text("No, keep the old name.", "typed")])
    assert clip_message(refused, 60, Texts(COUNTER), key="#7").text.endswith("No, keep the old name.")
    words = "No.\nKeep the old name, and ask me before you rename anything else in this module.\n" * 3
    refused = m.result("c", [m.text(words, "typed"), SOURCE])
    assert words in quotation(refused, "#7", 48, COUNTER)


LOG = "\n".join(f"tests/test_{n}.py {'.' * 40} [{n}%]" for n in range(60))


@pytest.mark.parametrize("size", [24, 34, 48, 57])
@pytest.mark.parametrize(
    "end",
    [
        "1 failed, 61 passed in 9.10s",
        "2 of 120 checks FAILED: /refund/full\n",
        "ValueError: Invalid opcode: 0\nExit code 1",
    ],
)
def test_R10_a_clip_of_a_log_never_shows_half_of_its_last_line(size: int, end: str) -> None:
    small = clip(f"{LOG}\n{end}", size, "bash")
    assert small.endswith(f"\n{end.rstrip()}")
    assert COUNTER.text(small) <= size + 4


@pytest.mark.parametrize(
    "row",
    [
        "internal/store/store.go:88:3: entries declared and not used",
        "src/app/views.py:12:1: F401 `os` imported but unused",
        "lib/parse.c:40:9: warning: comparison of integers of different signs",
    ],
)
def test_R19_a_clip_of_a_log_keeps_a_row_that_names_a_place_in_a_file(row: str) -> None:
    log = [f"compiling part{n} of the tool" for n in range(120)]
    small = clip("\n".join([*log[:60], row, *log[60:], "make: leaving"]), 90, "bash")
    assert f"\n{row}\n" in small


def test_R21_a_line_that_goes_on_at_the_end_of_a_clip_is_not_broken_in_two() -> None:
    failed = "FAILED tests/views/test_checkout.py::test_total - ImportError: cannot import name 'Invoice' from 'app.billing'"
    for size in range(70, 140):
        small = clip(f"{LOG}\n{failed}\n1 failed, 411 passed, 3 skipped in 14.22s\n", size, "bash")
        assert "\n… " not in small
        assert failed in small or "FAILED" not in small


def test_R19_a_clip_of_a_short_read_begins_with_its_lines() -> None:
    rows = "\n".join(f"{n:6d}\t    value_{n} = compute(alpha, beta, gamma)" for n in range(690, 696))
    small = clip(
        f"Here's the result of running `cat -n` on /workspace/ponyc/src/parser.c:\n{rows}\n", 40, "read"
    )
    assert small.startswith("(lines 690–695)\n    value_690")


def test_R17_a_quotation_holds_no_half_of_a_secret() -> None:
    token = f"ghp_{'aZ3kQ9xPm' * 4}"
    for before in range(0, 60, 3):
        text = "word " * before + token + " word" * 200
        assert "aZ3kQ9xP" not in quotation(m.result("c", text), "#7", 48, COUNTER)


def test_R19_a_small_clip_says_a_whole_line_or_nothing() -> None:
    """`[di …` of a commit tells nothing: the last line has that room."""
    output = (
        "[main 1a2b3c4] Add the thing that was asked for, with tests\n 6 files changed, 416 insertions(+)"
    )
    shown = clip_message(m.Result("c", (m.Text(output),)), 24, Texts(COUNTER), key="#9", kind="bash")
    assert shown.text.splitlines()[-1] == " 6 files changed, 416 insertions(+)"
    assert shown.text.splitlines()[0].startswith(("[… ", "[main 1a2b3c4] Add the thing"))


def test_R19_a_quoted_call_names_its_file_in_full() -> None:
    """A path is worth more than the mark that would stand in it."""
    path = "/Users/somebody/Work/product/devenv/cli/cmd/product/cli/e2e_test/scenario_checkpoint_workflows_test.go"
    call = m.Call("c", "Edit", {"file_path": path, "old_string": SOURCE, "new_string": SOURCE[::-1]})
    assert path in quotation(m.Assistant((call,)), "#7", 80, COUNTER)


def test_R19_a_short_line_that_is_whole_stays() -> None:
    output = "Exit code 1\n" + "\n".join(f"{n}: " + "word " * 40 for n in range(30))
    assert clip(output, 24, "other").splitlines()[0] == "Exit code 1"


@pytest.mark.parametrize("kind", ["bash", "read", "grep", "other"])
def test_R19_a_marker_stands_where_lines_are_missing_and_nowhere_else(kind: ToolKind) -> None:
    lines = [f"{n} {'error: ' if n % 7 < 2 else ''}step {n * n} of the long way" for n in range(120)]
    for room in range(60, 900, 40):
        clipped = clip_text("\n".join(lines), room, Texts(COUNTER), key="#3", kind=kind)
        before, gap = -1, False
        for row in clipped.split("\n"):
            if row == "…" or row.startswith("[… "):
                assert not gap, "one marker for each gap"
                gap = True
            else:
                at = lines.index(row)
                assert gap == (at != before + 1), (room, row)
                before, gap = at, False
        assert gap == (before != len(lines) - 1)
        assert clipped.count("tokens, #3 …]") == 1


def test_R19_values_of_one_record_do_not_end_another() -> None:
    flights = [
        {
            "flight": f"HAT{n:03}",
            "note": 'a "quoted}, {" word',
            "prices": [{"economy": 100 + n}, {"first": 900 + n}],
        }
        for n in range(30)
    ]
    for said in (
        json.dumps(flights),
        json.dumps({"found": flights}),
        json.dumps(flights, separators=(",", ":")),
    ):
        for room in range(30, 600, 20):
            flight = ""
            for row in clip_text(said, room, Texts(COUNTER), key="#3").split("\n"):
                flight = row if '"flight"' in row else "" if row.startswith(("…", "[… ")) else flight
                for price in re.findall(r'"(?:economy|first)": ?(\d{3})', row):
                    assert f"HAT0{price[1:]}" in flight, (room, row)


def test_R19_the_end_of_a_clip_begins_with_a_word() -> None:
    words = [f"word{n:04}" for n in range(400)]
    for size in range(40, 400, 40):
        *_, end = clip(" ".join(words), size).split("\n")
        assert end.removeprefix("… ").split(" ")[0] in words


def test_R19_of_a_search_the_hits_stay_before_the_lines_around_them() -> None:
    around = [f"src/a.go-{n}-\tvar number{n} = compute({n})" for n in range(100, 120)]
    hits = ["src/a.go:120:func TransitionAndLog(a int) {", "src/b.go:7:\tTransitionAndLog(1)"]
    text = "\n".join([*around, hits[0], *[row.replace("-1", "-2", 1) for row in around], "--", hits[1]])
    small = clip(text, 80, "grep").split("\n")
    assert hits[0] in small and hits[1] in small


def test_R22_of_a_file_no_line_is_told_for_a_word_in_it() -> None:
    rows = [f"{n}:    value_{n} = compute({n})" for n in range(1470, 1520)]
    rows[30] = "1500:    except OverflowError as error:"
    assert "OverflowError" not in clip("\n".join(rows), 120, "edit")


def test_R19_brackets_at_the_end_of_a_file_are_not_the_end_of_its_clip() -> None:
    code = (
        "\n".join(f"func step{n}() {{\n\treturn compute({n})\n}}\n" for n in range(60)) + "\n\t\t}\n\t})\n}\n"
    )
    for size in range(30, 200, 10):
        _, _, end = clip(code, size, "read").rpartition(" …]")
        assert not end.strip() or any(map(str.isalnum, end)), end


def test_lines_that_outputs_began_with_before_leave_their_room_to_what_is_new() -> None:
    banner = "Collecting usage statistics, see https://example.org/usage\nplatform linux -- Python 3.12.1\n"
    printed = set(banner.splitlines()).__contains__
    text = banner + "".join(f"step {n} is done\n" for n in range(200)) + "all good"
    result = m.result("c1", text)
    clip = clip_message(result, 120, Texts(COUNTER, printed=printed), key="#7", kind="bash").text
    mark, first, *_ = clip.split("\n")
    assert re.fullmatch(r"\[… \d+ tokens, #7 …\]", mark) and first == "step 0 is done", (
        "what is missing is marked"
    )
    assert banner in clip_message(result, 120, Texts(COUNTER), key="#7", kind="bash").text


def test_a_banner_that_speaks_of_failure_stays() -> None:
    text = "FAILED tests/test_app.py::test_login, and this is no news, as it failed before\n" * 2 + "".join(
        f"more of it: {n}\n" for n in range(200)
    )
    result = m.result("c1", text)
    clip = clip_message(result, 120, Texts(COUNTER, printed=lambda _: True), key="#7", kind="bash").text
    assert clip.startswith("FAILED tests/test_app.py")


def test_steps_of_a_progress_bar_are_one_line() -> None:
    steps = "".join(f"fetching {n:3}% |{'=' * (n // 10)}{' ' * (10 - n // 10)}|\n" for n in range(0, 101, 2))
    text = f"start of it\n{steps}" + "".join(f"step {n} is done\n" for n in range(200))
    clip = clip_message(m.result("c1", text), 120, Texts(COUNTER), key="#7", kind="bash").text
    assert "fetching 100% |==========| [×51]" in clip


STEPS = "\n".join(f"compiling part{n} of the tool" for n in range(60))
TRACEBACK = "\n".join(
    ["Traceback (most recent call last):"]
    + [
        f'  File "/w/app/part{n}.py", line {n}, in step_{n}\n    return step_{n + 1}(value)'
        for n in range(30)
    ]
    + ["ValueError: the answer has to be a number, not a word"]
)


@pytest.mark.parametrize("size", [24, 34, 48, 68, 96, 192])
@pytest.mark.parametrize(
    ("log", "error"),
    [
        (f"--> the computation\n{TRACEBACK}\n\nElapsed: 3 s", "ValueError: the answer has to be"),
        (
            "Running the tests of part 1\n/opt/envs/work-5O4_aCHf-py3.12/bin/python: No module named pytest\n"
            "[Command finished with exit code 1]",
            "No module named pytest",
        ),
        (
            f"{STEPS}\nerror[E0308]: mismatched types\n{STEPS}\nWaiting for the debugger to disconnect...\n"
            "Command exited with code 2",
            "error[E0308]: mismatched types",
        ),
        (
            f"Exit code 1\n{STEPS}\ncd: can't cd to /w/build\n{STEPS}\nleaving the folder",
            "can't cd to /w/build",
        ),
    ],
)
def test_R10_the_line_that_says_what_went_wrong_is_the_last_of_a_log_to_go(
    size: int, log: str, error: str
) -> None:
    small = clip(log, size, "bash")
    assert error in small
    assert COUNTER.text(small) <= size + 4


@pytest.mark.parametrize("size", [24, 34, 48, 68, 96])
def test_R10_tests_that_passed_are_told_as_that_whatever_they_printed(size: int) -> None:
    printed = f"{STEPS}\nError: Database connection failed\n{STEPS}\n"
    passed = "      Tests  245 passed (245)\n   Start at  20:03:14\n   Duration  2.34s (setup 8.05s, collect 3.93s)"
    assert "Tests  245 passed (245)" in clip(f"> app@0 test\n{printed}{passed}", size, "bash")
    then = "src/a.ts(9,5): error TS2322: Type 'unknown' fits nothing.\nDone."
    assert "error TS2322" in clip(f"> app@0 test\n{STEPS}\n{passed}\n{then}", size, "bash")


def test_R10_of_a_failed_build_the_errors_have_most_of_the_room() -> None:
    errors = [f"src/part_{x}.ts(4,5): error TS2339: Property '{x}' does not exist." for x in "abcdefghi"]
    log = f"Exit code 2\n{STEPS}\n" + "\n".join(errors) + f"\n{STEPS}\nnpm error Lifecycle script failed"
    assert sum(error in clip(log, 230, "bash") for error in errors) >= 6
    assert "--- FAIL: TestHash" in clip(
        f"{STEPS}\n--- FAIL: TestHash (3.2s)\n{STEPS}\nERROR task failed", 30, "bash"
    )


def test_R10_packages_that_passed_are_told_as_that() -> None:
    passed = "".join(f"ok  \tapp/part{n}\t(cached)\n" for n in range(30))
    assert "ok  \tapp/part29" in clip(
        f"{passed}[lint] $ golangci-lint run\n0 issues.\n[test] $ go test", 40, "bash"
    )


def test_R19_the_end_of_a_document_or_a_diff_stands_under_its_heading() -> None:
    """Alone "Can't: push code" reads like a rule; it is said of a kind of key."""
    parts = [f"## Part {x}\n" + "\n".join(f"Sentence {n} of {x}." for n in range(30)) for x in "abcd"]
    document = "\n".join(
        ["# Guide", *parts, "### Keys for one repository", *["They expire."] * 2, "Can't: push code."]
    )
    for size in (30, 60, 120, 240):
        assert "### Keys for one repository\n" in clip(document, size)
    assert "## Part c\n" in clip(document, 120)
    files = [
        f"diff --git a/{x} b/{x}\n--- a/{x}\n+++ b/{x}\n@@ -1 +1 @@\n" + f"+{x}\n" * 80
        for x in ("a.go", "b.go")
    ]
    assert "+++ b/b.go\n" in clip("".join(files), 60, "bash")


def test_R19_no_mark_stands_where_only_a_blank_line_is_missing() -> None:
    text = "\n\n".join(f"def part_{n}(value):\n    return value + {n}" for n in range(60))
    for size in (60, 120, 240):
        for before, after in pairwise(clip(text, size, "read").split("\n")):
            n = re.match(r"def part_(\d+)", before)
            assert not (n and after == "…" and f"def part_{int(n[1]) + 1}(" in before)


@pytest.mark.parametrize("size", [24, 34, 48, 68])
def test_R10_a_log_that_only_speaks_of_errors_keeps_its_ends(size: int) -> None:
    """`0 errors` and the like are no reason to drop what a command printed first and last."""
    row = "✓ an error: is handled\n0 errors, 0 failed\nTesting error handling"
    small = clip(f"Running all of it\n{STEPS}\n{row}\n{STEPS}\nDone in 3.1 s", size, "bash")
    assert "Done in 3.1 s" in small and "error" not in small


def test_R19_a_small_clip_of_a_long_error_says_the_file_and_what_failed() -> None:
    error = "src/a/very/long/path/that/is/in/the/way/of/it/useTeam.ts(99,5): error TS2322: Type 'unknown' fits nothing."
    log = f"{STEPS}\n{error}\n{STEPS}"
    assert error in clip(log, 60, "bash")
    assert "\n… useTeam.ts(99,5): error TS2322: " in clip(log, 30, "bash")
    assert "… error TS2322: Type" in clip(log, 24, "bash")


@pytest.mark.parametrize("size", [24, 34, 48, 96, 192])
def test_R10_an_edit_that_failed_says_why_and_shows_no_code_instead(size: int) -> None:
    refusal = (
        "Your edit has introduced new syntax error(s). Read this message carefully, then try again.\n\n"
        f"ERRORS:\n- E999 IndentationError: unexpected indent\n\nThis is how it would have looked:\n{SOURCE}"
    )
    assert "E999 IndentationError: unexpected indent" in clip(refusal, size, "edit")
    unlike = f"ERROR:\nNo replacement was performed, old_str `{SOURCE}` is not there."
    assert "No replacement was performed" in clip(unlike, size, "editor")


@pytest.mark.parametrize("size", [96, 136, 192])
def test_R19_of_an_edit_that_a_tool_shows_the_changed_line_stays(size: int) -> None:
    rows = SOURCE.split("\n")[:60]
    rows[30] = "    changed = self.answer"
    shown = "\n".join(f"{n:6}\t{row}" for n, row in enumerate(rows, 1))
    text = f"The file /w/src/errors/a.py has been edited. The part that changed:\n{shown}\nReview it."
    assert rows[30] in clip(text, size, "editor")


def test_R19_details_of_an_error_never_stand_below_the_headline_of_another() -> None:
    errors = [
        [
            f"src/part{n}.ts({n},5): error TS2322: Type '{{ {f'value{n}: unknown; ' * 16}}}' does not fit.",
            *(
                f"{' ' * depth}Type 'unknown' of value{n} does not fit at depth {depth}."
                for depth in (2, 4, 6)
            ),
        ]
        for n in range(9)
    ]
    log = "\n".join(row for error in errors for row in error)
    for size in range(24, COUNTER.text(log), 20):
        headline = ""
        for row in clip(f"{log}\nExit code 2", size, "bash").split("\n"):
            number = re.search(r"part(\d)\.ts\(|of value(\d) ", row)
            if number is None:
                continue
            headline = number[1] or headline
            assert number[0] and number[2] in (None, headline), (size, row)


def test_R19_a_long_line_that_says_what_went_wrong_stays_in_part() -> None:
    headline = f"src/b.ts(99,5): error TS2322: Type '{{ {'value: unknown; ' * 30}}}' does not fit."
    small = clip(f"src/a.ts(1,5): error TS1: one\n{STEPS}\n{headline}\n{STEPS}\nExit code 2", 400, "bash")
    (row,) = [row for row in small.split("\n") if row.startswith("src/b.ts(99,5): error TS2322: ")]
    assert row.endswith(" …") and len(row) <= 250


def test_R21_what_a_banner_had_counts_as_missing_however_small_the_clip_is() -> None:
    banner = "".join(f"ok of step {n}: the site is read from the settings\n" for n in range(12))
    texts = Texts(COUNTER, printed=set(banner.splitlines()).__contains__)
    text = banner + "\n".join(f"step {n} went on" for n in range(8))
    clipped = clip_text(text, 48, texts, "#7", "bash")
    missing = int(re.findall(r"\[… (\d+) tokens, #7 …\]", clipped)[0])
    assert missing + COUNTER.text(re.sub(r"\[….*?…\]|…", "", clipped)) >= COUNTER.text(text) - 8
    assert "step 7 went on" in clipped and clipped.count("[…") == 1


def test_R21_verdicts_of_packages_are_no_banner() -> None:
    rows = "".join(f"ok  \texample.org/app/part{n}\t0.00{n}s\n" for n in range(12))
    text = rows + "FAIL example.org/app/last"
    assert clip_text(text, 150, Texts(COUNTER, printed=lambda _: True), "#7", "bash").startswith(
        "ok  \texample.org/app/part0"
    )


@pytest.mark.parametrize("between", ["\n", ",\n", "\n---\n"])
def test_R21_the_end_of_one_record_never_stands_below_the_beginning_of_another(between: str) -> None:
    text = between.join(f'{{\n  "name": "n{n}",\n  "size": {n},\n  "last": "l{n}"\n}}' for n in range(40))
    for size in (24, 48, 96, 192):
        assert "l39" not in clip(text, size, "bash") and '"n0"' in clip(text, size, "bash")


def test_R21_a_line_of_a_diff_stands_below_its_place_and_its_file() -> None:
    parts = "".join(
        f"diff --git a/f{n}.py b/f{n}.py\n--- a/f{n}.py\n+++ b/f{n}.py\n@@ -{n},3 +{n},4 @@ def g{n}():\n     one\n+    added{n}\n     two\n"
        for n in range(60)
    )
    for size in range(60, 400, 20):
        rows = clip(parts, size, "bash").split("\n")
        for at, row in enumerate(rows):
            if found := re.match(r"\+ +added(\d+)$", row):
                above = [x for x in rows[:at] if x.startswith(("@@ ", "+++ "))][-2:]
                assert above == [
                    f"+++ b/f{found[1]}.py",
                    f"@@ -{found[1]},3 +{found[1]},4 @@ def g{found[1]}():",
                ], size


def test_R21_what_a_test_got_stays() -> None:
    log = f"=== RUN TestA\n{STEPS}\n    sum_test.go:1972: expected 0 user lines added, got 4\n{STEPS}\n--- FAIL: TestA (0.01s)\nFAIL"
    assert "sum_test.go:1972: expected 0 user lines added, got 4" in clip(log, 100, "bash")


def test_R21_what_a_linter_found_stays() -> None:
    log = f"{STEPS}\n211:11  Warning: 'teamLead' is assigned a value but never used.\n{STEPS}\ninfo - see the docs"
    assert "211:11  Warning: 'teamLead'" in clip(log, 100, "bash")


def test_R21_what_passing_tests_print_is_not_what_tells_most() -> None:
    log = f"{STEPS}\n  stack: 'Error: Database connection failed'\n{STEPS}\n Tests  245 passed (245)"
    shown = clip(log, 100, "bash")
    assert "Database connection failed" not in shown and "245 passed" in shown


def test_R21_the_end_of_what_was_said_is_whole_sentences() -> None:
    reasons = (
        "There are two reasons why you might not see a request at first. " + "The first has many parts. " * 40
    )
    text = f"{reasons}Navigating there normally should trigger it because there is no cached payload yet. It is so."
    for size in range(30, 150, 4):
        _, mark, end = clip(text, size).rpartition("#7 …]\n")
        assert not mark or not end or end.removeprefix("… ").startswith(("The first", "Navigating", "It is"))


def test_R21_of_an_edit_what_changed_stays() -> None:
    around = "\n".join(f"    before{n} = compute(before{n})" for n in range(30))
    behind = "\n".join(f"    after{n} = compute(after{n})" for n in range(30))
    text = f"The file /w/a.py has been edited. Here's the result:\n{around}\n    return is_the_new_line\n{behind}"
    for size in (80, 120, 200):
        shown = clip(text, size, "edit")
        assert shown.startswith("The file /w/a.py has been edited.") and "is_the_new_line" in shown
