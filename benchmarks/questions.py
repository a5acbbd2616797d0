"""Questions about causes, about what came first or last and what changed, asked of real sessions of work.

`python -m benchmarks.questions`. Each has the numbers of the messages that answer it, found by reading. The first
group was there while the weight was chosen, the second beside it. The third, about two other sessions, was written after
that and showed that a question may name an identifier. The last was written when nothing was changed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import refold
from refold.recall import Index, index_of
from refold.recall.rank import parse_question, rank
from refold.session.edits import said_by

DEPTHS = (3, 5, 10, 20)
FILES = {
    "plugin": "claude-code/session-share-general-tool-calls.jsonl",
    "themes": "pi/large-session.jsonl",
    "parser": "openhands/multi_swe_bench-example-output.jsonl#1",
    "teams": "codex/rollout-2025-09-24T19-22-20-01997e76-d124-7592-9cac-2ec05abbca08.jsonl",
    "refactor": "pi/before-compaction.jsonl",
    "match": "openhands/multi_swe_bench-example-output.jsonl#2",
    "rounding": "swe-agent/play__marshmallow-code__marshmallow-1867__function_calling_replace_from_source__"
    "marshmallow-code__marshmallow-1867.traj",
}

FILES |= {
    name: f"claude-code-compactions/{number}.jsonl.gz"
    for name, number in (("checkpoints", "07"), ("wingman", "10"), ("rewind", "11"), ("listing", "05"))
}


class Asked(NamedTuple):
    session: str
    text: str
    answers: tuple[int, ...]


BUILT = (
    Asked("plugin", "why did publishing the session not work at first?", (122, 130)),
    Asked("plugin", "why could the plugin not be tested from this session?", (79, 83)),
    Asked("plugin", "what changed in the plan after the user interrupted?", (50, 59)),
    Asked("themes", "why did the wrap-ansi tests break?", (120,)),
    Asked("themes", "why did the background of tool executions not change with the theme?", (312, 314, 320)),
    Asked("themes", "why did the check fail at first in coding-agent?", (59, 60)),
    Asked("themes", "why are the colors different in the VS Code terminal?", (328,)),
    Asked("themes", "what was the last error in the markdown tests?", (194, 196, 202)),
    Asked("parser", "why did the first replacement in the file fail?", (40, 44)),
    Asked("parser", "what was inserted in the end?", (61, 62, 63)),
)
HELD = (
    Asked("plugin", "why did running claude from the shell not work at first?", (94,)),
    Asked("plugin", "why do we need a SessionStart hook?", (39, 43)),
    Asked("plugin", "why did the commit skill not work?", (106,)),
    Asked("themes", "why did sed not fix the markdown tests?", (130, 138)),
    Asked("themes", "what was wrong with the first port of the message selector?", (15, 18, 22)),
    Asked("themes", "what changed in the Markdown constructor?", (166, 178)),
    Asked("themes", "why was truncated text wider than it should be?", (252, 254, 258)),
    Asked("parser", "why was the command parser not found at first?", (6, 22, 24)),
    Asked("parser", "why did viewing the file with a range fail?", (30, 31)),
    Asked("parser", "why did the agent give up?", (67,)),
)
FRESH = (
    Asked("teams", "why did the team modal stay empty?", (211,)),
    Asked("teams", "why does the TeamSheet still need stats?", (59,)),
    Asked("teams", "why could the pull request not be opened?", (249,)),
    Asked("teams", "what was changed to get all checks green?", (245,)),
    Asked("refactor", "why did the QueueMode import not work?", (81, 83)),
    Asked("refactor", "why does messages return AppMessage?", (30, 36)),
    Asked("refactor", "what was wrong with unsubscribe?", (190, 191)),
    Asked("refactor", "why was tokensAfter removed?", (185, 187)),
    Asked("refactor", "why are there a main-new and a cli-new?", (86,)),
    Asked("refactor", "why did the prompting methods not compile at first?", (133, 135)),
)
LAST = (
    Asked("match", "why did the compiler not build at first?", (65, 87)),
    Asked("match", "why could cmake not find what it needs?", (87, 99)),
    Asked("match", "why did replacing the return statement fail?", (32, 53)),
    Asked("match", "what was the last thing that was missing?", (99,)),
    Asked("match", "why was the indentation changed with sed?", (55, 59)),
    Asked("rounding", "why did the first edit of the file fail?", (20,)),
    Asked("rounding", "what changed in the output after the fix?", (24,)),
    Asked("themes", "what happens when the theme file is deleted?", (636, 640)),
    Asked("themes", "why were there artifacts when the theme was selected?", (685, 686)),
    Asked("themes", "why is the README mentioned in the system prompt?", (653, 674)),
)
OUTCOMES = (
    Asked("checkpoints", "did the integration tests pass in the end?", (205, 206, 207, 208, 209)),
    Asked("checkpoints", "the first run of the integration tests", (106, 107, 108)),
    Asked("checkpoints", "what did the e2e build complain about?", (238, 239, 240)),
    Asked("checkpoints", "which e2e files were found?", (215, 216, 217, 218, 219)),
    Asked("wingman", "what did the first lint run report?", (155, 156, 157)),
    Asked("wingman", "did TestWingman pass?", (181, 182, 183)),
    Asked("wingman", "did all tests pass before the commit?", (187, 188, 243, 244, 245)),
    Asked("wingman", "result of the dup check for wingman", (191, 192, 193)),
    Asked("wingman", "the first run of the tests", (173, 174, 175)),
    Asked("rewind", "did the build succeed?", (3, 5, 6)),
    Asked("rewind", "did the integration tests pass at the end?", (361, 362, 363, 373, 374, 375)),
    Asked("rewind", "what did the TestManualCommitWorkflow run print?", (295, 296, 297, 298, 299)),
    Asked("rewind", "how many files did commit ba25764 change?", (63, 64, 65)),
    Asked("rewind", "the first test:ci run", (29, 30, 31)),
    Asked("listing", "how many metadata.json files are on the sessions branch?", (157, 158, 159)),
    Asked("listing", "which checkpoint trailer does commit 3f9f561 have?", (131, 132, 133, 159, 160, 161)),
    Asked("listing", "what did entire list print when it was run first?", (115, 116, 117)),
    Asked("listing", "what did lint complain about at first?", (95, 96, 97)),
    Asked("listing", "did the tests pass after the lint issues were fixed?", (109, 110, 111)),
    Asked("listing", "what does git status show before the first commit?", (1, 2, 3, 11, 12, 13, 43, 44)),
)
"""What came of a run, asked of four sessions that had no part in finding out how to rank it. An answer is the run,
its result, or the reply that goes on from it."""

Ranking = Callable[[Index, str], Sequence[int]]


def shipped(index: Index, text: str) -> list[int]:
    return [at for at, _ in rank(index, parse_question(index, text), limit=max(DEPTHS))]


def found(folder: Path, ranking: Ranking = shipped) -> dict[str, dict[int, int]]:
    """Of the questions of each group, how many have an answer among the first hits, by depth."""
    sessions = {name: refold.load(f"{folder / file}") for name, file in FILES.items()}
    numbers = {
        name: {entry.id: at for at, entry in enumerate(e for e in session.path if said_by(e) is not None)}
        for name, session in sessions.items()
    }
    counts: dict[str, dict[int, int]] = {}
    groups = {"built": BUILT, "held": HELD, "fresh": FRESH, "last": LAST, "outcomes": OUTCOMES}
    for group, questions in groups.items():
        counts[group] = dict.fromkeys(DEPTHS, 0)
        for asked in questions:
            index = index_of(sessions[asked.session])
            hits = [numbers[asked.session].get(index.docs[at].entry_id) for at in ranking(index, asked.text)]
            for depth in DEPTHS:
                counts[group][depth] += any(number in asked.answers for number in hits[:depth])
    return counts


if __name__ == "__main__":
    from benchmarks.measuring import DATA

    for group, depths in found(DATA).items():
        print(group, depths)
