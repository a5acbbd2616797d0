"""M8: does the check of summaries catch what was not said, and leave alone what was?

True summaries: the two real ones of a pi session with what they summarise, some written by hand for this measure
over sample transcripts (`summaries/`), and the readable digest of further ones. Into each, fabrications are put:
paths, numbers, commands, names and quotations that do not occur in the sources (that is made sure of here, with
plain text search). Caught: those that end up marked. Wrongly marked: claims of the untouched summaries.

    python -m benchmarks.verification [--quick]
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measuring import COUNTER, DATA, percent
from refold import Session, transcripts
from refold.compaction.plan import SummarySource
from refold.compaction.verify import MARK, Verified, verify
from refold.digest import Source, digest
from refold.entries import Fold, MessageEntry, key
from refold.errors import RefoldError
from refold.messages import searchable
from refold.session.edits import said_by

HERE = Path(__file__).resolve().parent
SEED = 20_261_116
EACH = 10
"""Fabrications put into one summary at a time."""
ROUNDS = 6


@dataclass(frozen=True)
class True_:
    """A summary that is true of its sources."""

    name: str
    kind: str
    text: str
    sources: tuple[SummarySource, ...] = field(repr=False)
    previous: str = ""


def real_summaries() -> Iterator[True_]:
    """Compactions that a model wrote in a real session, with everything it had seen."""
    session = Session.of(transcripts.read(DATA / "pi" / "before-compaction.jsonl"))
    previous = ""
    for fold in [entry for entry in session.path if isinstance(entry, Fold)]:
        seen = session.path[: session.position(fold.id)]
        said = tuple(
            SummarySource(entry.id, message) for entry in seen if (message := said_by(entry)) is not None
        )
        yield True_(f"pi, compaction {fold.id}", "by a model", fold.summary, said, previous)
        previous = fold.summary


def written_summaries() -> Iterator[True_]:
    for path in sorted((HERE / "summaries").glob("*.md")):
        first, text = path.read_text(encoding="utf-8").split("\n", 1)
        file, _, number = first.removeprefix("source: ").rpartition("#")
        yield True_(path.stem, "by hand", text, _said(DATA / file, int(number)))


def digest_summaries(*, quick: bool = False) -> Iterator[True_]:
    """The readable digest takes whole sentences out of the sources."""
    paths = [path for path in sorted(DATA.glob("*/*.json*")) if not path.name.startswith(("cuts.", "oracle"))]
    for path in paths[::6] if quick else paths:
        if path.parent.name == "locomo":
            continue
        for number in range(3 if path.parent.name in ("tau-bench", "adp", "openhands") else 1):
            try:
                said = _said(path, number)
            except RefoldError:
                break
            sources = [Source(message=one.message, id=one.id, key=key(one.id)) for one in said]
            text = digest(sources, budget=1_500, counter=COUNTER, form="readable")
            text = re.sub(r" ?\[[a-z2-7]{7}\]", "", text)  # recall keys point somewhere; they claim nothing
            yield True_(f"{path.parent.name}/{path.stem[:20]}#{number}", "by the digest", text, said)


def _said(path: Path, number: int) -> tuple[SummarySource, ...]:
    loaded = transcripts.read(path, index=number)
    return tuple(
        SummarySource(entry.id, entry.message) for entry in loaded.entries if isinstance(entry, MessageEntry)
    )


# ── fabrications ────────────────────────────────────────────────────────────────────────────────

_STEMS = (
    "ledger",
    "quota",
    "webhook",
    "tenant",
    "invoice",
    "carousel",
    "telemetry",
    "gateway",
    "sidebar",
    "voucher",
)
_TAILS = ("resolver", "bridge", "sweeper", "factory", "mapper", "daemon", "notifier", "splitter")
_ENDS = (".py", ".ts", ".go", ".rs", ".yaml", ".tsx", ".md")
_FIRST = ("Petra", "Anselm", "Yusuf", "Ingrid", "Marisol", "Tadeusz", "Oluwaseun", "Branwen")
_LAST = ("Lindqvist", "Okonkwo", "Haverbeke", "Castellanos", "Grzybowski", "Thistlewood")
_SAID = (
    "ship it before the audit on Friday", "the cache must survive a restart", "I will not review this twice",
    "please keep the purple banner", "this has to work on tape drives too", "先不要通知财务部门", "下周之前必须上线",
)  # fmt: skip


@dataclass
class Forger:
    """Makes claims that the sources do not hold."""

    chance: random.Random
    sources: str
    """All source text, lower case, without white space."""
    true_paths: list[str]

    def path(self) -> tuple[str, str]:
        name = self._new(self._path)
        return name, self.chance.choice(
            (
                f"The fix went into `{name}`.",
                f"I also changed {name} for this.",
                f"相关代码在{name}里。",
                f"- {name}: rewritten",
            )
        )

    def number(self) -> tuple[str, str]:
        value = self._new(
            lambda: str(
                self.chance.choice((self.chance.randint(213, 989), self.chance.randint(1_013, 98_765)))
            )
        )
        return value, self.chance.choice(
            (
                f"There were {value} failing cases.",
                f"The table has {value} rows now.",
                f"一共有{value}个用例。",
                f"Build #{value} was used.",
            )
        )

    def command(self) -> tuple[str, str]:
        name = self._new(self._command)
        return name, self.chance.choice(
            (f"I ran `{name}` and it passed.", f"Deploy with `{name}`.", f"```bash\n{name}\n```")
        )

    def name(self) -> tuple[str, str]:
        name = self._new(lambda: f"{self.chance.choice(_FIRST)} {self.chance.choice(_LAST)}", whole=False)
        return name, self.chance.choice(
            (
                f"The design was approved by {name} yesterday.",
                f"As {name} asked, the old way stays.",
                f"{name} will review it.",
            )
        )

    def quotation(self) -> tuple[str, str]:
        said = self._new(lambda: self.chance.choice(_SAID))
        return said, self.chance.choice(
            (f'The user said: "{said}".', f"用户说：「{said}」。", f"“{said}” was the request.")
        )

    def _path(self) -> str:
        stem = f"{self.chance.choice(_STEMS)}_{self.chance.choice(_TAILS)}{self.chance.choice(_ENDS)}"
        if self.true_paths and self.chance.random() < 0.5:  # a true folder, a file that is not in it
            return f"{self.chance.choice(self.true_paths).rpartition('/')[0]}/{stem}"
        return f"{self.chance.choice(('src', 'lib', 'app/core', '/opt/service'))}/{stem}"

    def _command(self) -> str:
        what = f"{self.chance.choice(_STEMS)}-{self.chance.choice(_TAILS)}"
        return self.chance.choice(
            (
                f"npm run {what}",
                f"make {what}",
                f"python -m {what.replace('-', '_')} --dry-run",
                f"kubectl rollout restart {what}",
                f"pytest tests -k {what.split('-')[0]} --maxfail=3",
            )
        )

    def _new(self, make: Callable[[], str], *, whole: bool = True) -> str:
        for _ in range(1_000):
            made = make()
            pieces = [made] if whole else made.split()
            if all(re.sub(r"\s+", "", piece.lower()) not in self.sources for piece in pieces):
                return made
        raise AssertionError("everything one can think of occurs in these sources")


KINDS = ("path", "number", "command", "name", "quotation")


def recombined(one: True_, chance: random.Random) -> Iterator[tuple[str, str, str]]:
    """The harder ones (kind, claim, sentence): every part is true, only the whole was never said. A file in
    another file's folder, a number off by a few, words of the sources as a command."""
    everything = "\n".join([one.previous, *(searchable(s.message, keys=True) for s in one.sources)])
    squeezed = re.sub(r"\s+", "", everything.lower())
    paths = sorted(set(re.findall(r"(?<![\w/.])[a-z][\w.-]*(?:/[\w.-]+)+\.[a-z]{1,5}\b", everything)))
    numbers = sorted(set(re.findall(r"(?<![\w.])\d{3,6}(?![\w.])", everything)))
    words = sorted(set(re.findall(r"\b[a-z]{4,9}\b", everything)))
    for _ in range(4):
        if len(paths) > 3:
            a, b = chance.sample(paths, 2)
            made = f"{a.rpartition('/')[0]}/{b.rpartition('/')[2]}"
            if made.lower() not in squeezed:
                yield "path", made, f"The change is in `{made}`."
        if numbers:
            made = str(int(chance.choice(numbers)) + chance.choice((-20, -3, 7, 50)))
            if int(made) > 12 and made not in squeezed:
                yield "number", made, f"It took {made} milliseconds."
        if len(words) > 20:
            made = " ".join(chance.sample(words, 3))
            if made.replace(" ", "") not in squeezed:
                yield "command", made, f"I ran `{made}`."


def recombinations(summaries: list[True_]) -> dict[str, Any]:
    chance = random.Random(SEED + 1)
    hits: defaultdict[str, list[float]] = defaultdict(list)
    for one in summaries:
        planted = list(recombined(one, chance))
        text = one.text + "\n\n" + "\n".join(sentence for _, _, sentence in planted)
        checked = verify(text, one.sources, one.previous)
        for kind, claim, _ in planted:
            hits[kind].append(float(caught(claim, checked)))
    every = [hit for listed in hits.values() for hit in listed]
    return {
        "planted": len(every),
        "caught": percent(every),
        "by_kind": {k: percent(v) for k, v in hits.items()},
    }


def forged(one: True_, chance: random.Random) -> tuple[str, list[tuple[str, str]]]:
    """The summary with fabrications between its lines, and what they are (kind, text)."""
    everything = "\n".join([one.previous, one.text, *(searchable(s.message, keys=True) for s in one.sources)])
    paths = sorted(set(re.findall(r"(?<![\w/.])[\w.-]+(?:/[\w.-]+)+\.\w{1,5}\b", everything)))
    forger = Forger(chance, re.sub(r"\s+", "", everything.lower()), paths)
    lines, planted = _outside_fences(one.text), list[tuple[str, str]]()
    for number in range(EACH):
        kind = KINDS[number % len(KINDS)]
        claim, sentence = getattr(forger, kind)()
        if any(claim == known for _, known in planted):
            continue
        planted.append((kind, claim))
        lines.insert(chance.randrange(len(lines) + 1), sentence)
    return "\n".join(lines), planted


def _outside_fences(text: str) -> list[str]:
    """Pieces between which something can be put: a fenced block is one piece."""
    pieces: list[str] = []
    inside = False
    for line in text.split("\n"):
        if inside:
            pieces[-1] += f"\n{line}"
        else:
            pieces.append(line)
        inside ^= line.lstrip().startswith("```")
    return pieces


def caught(claim: str, checked: Verified) -> bool:
    """Is the fabrication, or the telling part of it, among what was marked?"""
    return any(claim in wrong or (wrong in claim and len(wrong) > 3) for wrong in checked.unverified)


def fabrications(summaries: list[True_], *, quick: bool = False) -> dict[str, Any]:
    chance = random.Random(SEED)
    hits: defaultdict[str, list[float]] = defaultdict(list)
    missed: Counter[str] = Counter()
    for one in summaries:
        for _ in range(1 if quick else ROUNDS):
            text, planted = forged(one, chance)
            checked = verify(text, one.sources, one.previous)
            for kind, claim in planted:
                hit = caught(claim, checked)
                hits[kind].append(float(hit))
                if not hit:
                    missed[f"{kind}: {claim}"] += 1
    every = [hit for listed in hits.values() for hit in listed]
    rows = {kind: percent(listed) for kind, listed in hits.items()}
    return {
        "planted": len(every),
        "caught": percent(every),
        "by_kind": rows,
        "missed": dict(missed.most_common(20)),
    }


def true_claims(summaries: list[True_]) -> dict[str, Any]:
    """Claims of true summaries, and those that were marked all the same."""
    rows: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    marked: dict[str, list[str]] = {}
    for one in summaries:
        checked = verify(one.text, one.sources, one.previous)
        wrong = checked.text.count(MARK)
        rows[one.kind][0] += checked.claims
        rows[one.kind][1] += wrong
        if wrong:
            marked[one.name] = list(checked.unverified)
    total, wrong = (sum(row[n] for row in rows.values()) for n in (0, 1))
    by_kind = {kind: {"claims": row[0], "marked": row[1]} for kind, row in rows.items()}
    share = round(100 * wrong / max(total, 1), 2)
    return {"claims": total, "wrongly_marked": wrong, "percent": share, "by_kind": by_kind, "marked": marked}


# ── required facts ──────────────────────────────────────────────────────────────────────────────


def run(*, quick: bool = False) -> dict[str, Any]:
    if not DATA.exists():
        return {"skipped": "the transcripts are not here: set REFOLD_DATA to their folder"}
    summaries = [*real_summaries(), *written_summaries(), *digest_summaries(quick=quick)]
    return {
        "measure": "M8",
        "summaries": dict(Counter(one.kind for one in summaries)),
        "fabrications": fabrications(summaries, quick=quick),
        "recombined": recombinations(summaries),
        "true_claims": true_claims(summaries),
    }


if __name__ == "__main__":
    json.dump(run(quick="--quick" in sys.argv), sys.stdout, indent=1, ensure_ascii=False)
    print()
