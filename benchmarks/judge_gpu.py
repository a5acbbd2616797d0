"""A language model on a GPU as judge (M9, M12): how surprised is it by what really came next, given a view?

    python judge_gpu.py MODEL.gguf VIEWS.json.gz [VIEWS.json.gz …] --out SCORES.json [--known SCORES.json] [--seconds 500]

Needs torch, transformers and gguf, and nothing of refold: this file, the weights and the files of `benchmarks.compactions views`
are all that the machine with the GPU has to have. Views of several checkouts are judged in one run; equal texts once. Scores
are written after every case, so that a run that is stopped loses nothing: `--known` goes on from what was written, `--seconds` stops in
time.

A score is nats per token of what the assistant said and called next; tool results in between are shown, not scored. `old_nats`
is the same of names that only the older part of the session has (long range). A view that is too long for the judge has no score.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

Said = tuple[str, str]
"""Role and text."""
SYSTEM = "You are a software engineering agent. You work with tools. Continue the work."
LONG_RANGE = "@16000"
"""The views that are scored by old names, too; and `none`."""


class Scored(NamedTuple):
    nats: float
    old_nats: float | None = None


Score = Callable[
    [Sequence[Said], Sequence[Said], "Sequence[Sequence[Sequence[int]]] | None"], "Scored | None"
]
"""Of a view and what came next; spans of old names by message of the latter, or none."""


class View(NamedTuple):
    label: str
    set: str
    case: str
    name: str
    said: list[Said]
    after: list[Said]
    old_names: list[list[list[int]]] | None

    @property
    def key(self) -> str:
        """The same for the same text."""
        return hashlib.sha256(json.dumps([self.said, self.after, self.old_names]).encode()).hexdigest()[:16]


def read(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return json.load(file)


def views(files: Sequence[Path], wanted: Callable[[str], bool]) -> Iterator[list[View]]:
    """All views of a case, of whatever file; the set that a file begins with comes first."""
    cases: dict[tuple[str, str], list[View]] = {}
    for path in files:
        file = read(path)
        messages = [(role, text) for role, text in file["messages"]]
        for case in file["cases"]:
            after = [messages[number] for number in case["after"]]
            for name, numbers in case["views"].items():
                if wanted(name):
                    old = case.get("old_names") if name == "none" or name.endswith(LONG_RANGE) else None
                    said = [messages[number] for number in numbers]
                    view = View(file["label"], case["set"], case["case"], name, said, after, old)
                    cases.setdefault((case["set"], case["case"]), []).append(view)
    sets = list(dict.fromkeys(name for name, _ in cases))
    yield from (cases[key] for key in sorted(cases, key=lambda key: sets.index(key[0])))


def judge(
    files: Sequence[Path],
    score: Score,
    out: Path,
    about: dict[str, Any],
    *,
    known: Sequence[Path] = (),
    seconds: float = float("inf"),
    wanted: Callable[[str], bool] = lambda _: True,
    only: int | None = None,
) -> None:
    """Scores of the views of all cases, or of the first `only`, written to `out` after each case."""
    began = time.monotonic()
    told = {row["key"]: row for path in known for row in read(path)["rows"]}
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(islice(views(files, wanted), only), 1):
        for view in case:
            if (key := view.key) not in told:
                if time.monotonic() - began > seconds:
                    print("out of time: go on with --known", flush=True)
                    return
                scored = score(view.said, view.after, view.old_names)
                told[key] = scored._asdict() if scored else {"nats": None}
            nats = {name: told[key][name] for name in Scored._fields if told[key].get(name) is not None}
            place = {"label": view.label, "set": view.set, "case": view.case, "view": view.name, "key": key}
            rows.append(place | {"nats": None} | nats)
        seconds_used = round(time.monotonic() - began, 1)
        part = out.with_suffix(".part")
        date = time.strftime("%Y-%m-%d", time.gmtime())
        part.write_text(json.dumps({**about, "date": date, "seconds": seconds_used, "rows": rows}))
        part.replace(out)
        print(number, case[0].case, f"{seconds_used} s", flush=True)


def gemma_tokenizer(path: Path) -> Any:
    """As its pieces and their scores say. What transformers makes of them parts `model` into `mod` and `el`."""
    from gguf import GGUFReader
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

    fields = GGUFReader(str(path)).fields
    pieces, scores, kinds = (
        fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores", "token_type")
    )
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    normal = [number for number, kind in enumerate(kinds) if kind == 1]
    merges = [
        (piece[:at], piece[at:])
        for piece in (pieces[number] for number in sorted(normal, key=lambda number: -scores[number]))
        for at in range(1, len(piece))
        if piece[:at] in vocabulary and piece[at:] in vocabulary
    ]
    model = models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    whole = [piece for piece, kind in zip(pieces, kinds, strict=True) if kind in (3, 4)]
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in whole])
    return tokenizer


class Model:
    """Weights of any architecture that transformers reads from GGUF."""

    def __init__(self, path: Path) -> None:
        import torch
        import transformers

        self.torch, self.device = torch, "cuda" if torch.cuda.is_available() else "cpu"
        place = {"pretrained_model_name_or_path": str(path.resolve().parent), "gguf_file": path.name}
        precision = torch.bfloat16 if self.device == "cuda" else torch.float32
        model = transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=precision)
        self.model = model.to(self.device).eval()
        self.window = int(model.config.max_position_embeddings)
        gemma = model.config.model_type.startswith("gemma")
        self.tokenizer = (
            transformers.PreTrainedTokenizerFast(tokenizer_object=gemma_tokenizer(path))
            if gemma
            else transformers.AutoTokenizer.from_pretrained(**place)
        )
        self.begin, self.start, self.end = (
            ("<bos>", "<start_of_turn>", "<end_of_turn>") if gemma else ("", "<|im_start|>", "<|im_end|>")
        )
        self.roles = {"assistant": "model", "system": "user"} if gemma else {}
        self.encoded: dict[str, list[int]] = {}
        versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        device = torch.cuda.get_device_name() if self.device == "cuda" else "cpu"
        self.about = {"window": self.window, "weights": path.name, "device": device, **versions}

    def encode(self, text: str) -> list[int]:
        if text not in self.encoded:
            self.encoded[text] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return self.encoded[text]

    def framed(self, role: str, text: str) -> str:
        return f"{self.start}{self.roles.get(role, role)}\n{text}{self.end}\n"

    def encode_all(self, files: Sequence[Path]) -> None:
        """All texts at once, on all cores."""
        texts = list({self.framed(role, text) for path in files for role, text in read(path)["messages"]})
        if texts:
            found = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
            self.encoded |= dict(zip(texts, found, strict=True))

    def score(
        self, view: Sequence[Said], after: Sequence[Said], old: Sequence[Sequence[Sequence[int]]] | None
    ) -> Scored | None:
        ids = [*self.encode(self.begin)] if self.begin else []
        for role, text in (("system", SYSTEM), *view):
            ids += self.encode(self.framed(role, text))
        places: list[int] = []
        old_places: set[int] = set()
        for number, (role, text) in enumerate(after):
            ids += self.encode(f"{self.start}{self.roles.get(role, role)}\n")
            body = self.tokenizer(text + self.end, add_special_tokens=False, return_offsets_mapping=True)
            if role == "assistant":
                places += range(len(ids), len(ids) + len(body["input_ids"]))
                for first, last in old[number] if old else ():
                    old_places |= {
                        len(ids) + token
                        for token, (a, b) in enumerate(body["offset_mapping"])
                        if b > a and first <= a < last
                    }
            ids += [*body["input_ids"], *self.encode("\n")]
        if len(ids) > self.window or not places:
            return None
        losses = self.losses(ids, places)
        old_losses = [loss for place, loss in zip(places, losses, strict=True) if place in old_places]
        return Scored(sum(losses) / len(losses), sum(old_losses) / len(old_losses) if old_losses else None)

    def losses(self, ids: Sequence[int], places: Sequence[int]) -> list[float]:
        torch = self.torch
        with torch.no_grad():
            tokens = torch.tensor([ids], device=self.device)
            at = torch.tensor(places, device=self.device)
            hidden = self.model.model(tokens, use_cache=False).last_hidden_state[0, at - 1]
            logits = self.model.lm_head(hidden).float()
            return torch.nn.functional.cross_entropy(logits, tokens[0, at], reduction="none").tolist()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("weights", type=Path)
    parser.add_argument("views", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", help="of the judge, as tables call it")
    parser.add_argument("--known", type=Path, action="append", default=[], help="scores of the same judge")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    given = parser.parse_args()
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    began = time.monotonic()
    model = Model(given.weights)
    model.encode_all(given.views)
    loading = time.monotonic() - began
    print(f"loaded and encoded in {loading:.0f} s", flush=True)
    about = {"judge": given.name or given.weights.stem, "loading": round(loading, 1), **model.about}
    rest = given.seconds - loading
    judge(given.views, model.score, given.out, about, known=given.known, seconds=rest)


if __name__ == "__main__":
    main()
