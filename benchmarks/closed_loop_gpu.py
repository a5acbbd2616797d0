"""M13 with a real model: the chores of `benchmarks.chores`, done by weights on a GPU, from views.

    PYTHONPATH=src:DEPENDENCIES python -m benchmarks.closed_loop_gpu MODEL.gguf --out RESULT.json [--worlds 24] [--seconds 500]

Needs torch, transformers and gguf, and what `import refold` needs: msgspec, splintr-rs, apsw, click, rich (`--tiny` instead of weights: a random
model, to see that it runs).

Protocol, written before the first run. Worlds of 60 tool calls, so that no limit fits the model's window of 32,768 tokens. A small model cannot
plan, so calls that a chore itself asks for are made for it, and the last one is a form: the user's message ends with `Fill in: deploy
service=billing port=?`, and the model writes that line, greedily, at most 48 tokens. What it writes goes into the session, right or wrong, and the
tools answer it. A chore is a success where every blank is filled with the true value; *rules* counts blanks that a rule decides (`tag`,
`cc`, the folder or ending of a path). Every view sees the same worlds in the same batch. `no need` counts blanks whose value stands in the newest
tool result: what the model can do at all. Chances of a lucky guess: one in two for folder, ending and tag; none for the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.chores import Call, Chore, World, right
from benchmarks.closed_loop import Run, figure

SYSTEM = """You do chores for a small company, with tools. Keep to what the user has laid down. When a message ends with "Fill in:", answer with \
that one line and nothing else, every ? replaced by the value that this conversation gives. Where there is no value to give, write -.
Examples:
Fill in: call number=? name="?"
call number=5512 name="Ada Berg"
Fill in: book invoice=17 account=? amount=? tag=?
book invoice=17 account=K1000 amount=99.10 tag=-"""
VIEWS = (
    ("no limit", 10**6), ("refold", 4_000), ("refold", 8_000), ("tail", 4_000), ("tail", 8_000), ("pi", 4_000), ("pi", 8_000),
    ("augment", 8_000),
)  # fmt: skip
STEPS = 60
NEW = 48
PADDED = 160_000
"""Tokens of one batch, padding included."""
RULED = {"tag", "cc"}
_CALL = re.compile(r'(\w+)=("[^"]*"|\S*)')


def form(chore: Chore) -> tuple[str, dict[str, tuple[str, str]]] | None:
    """The line to fill in, and of each blank its value and who said it."""
    made = right(chore)
    if made is None:
        return None
    blanks: dict[str, tuple[str, str]] = {}
    shown: list[str] = []
    for name, value in made[1]:
        fact = next((fact for fact in chore.needs if fact.value == value), None)
        if fact:
            blanks[name] = value, "no need" if fact.kind == "total" else fact.source
        elif name in RULED:
            blanks[name] = value or "-", "rule"
        elif name == "path" and chore.kind in ("patch", "note"):
            blanks[name] = value, "rule"
        if name == "path" and chore.kind == "patch":
            blank = f"?/{value.partition('/')[2]}  (vendor or patches)"
        elif name == "path" and chore.kind == "note":
            blank = f"{value.rpartition('.')[0]}.?  (md or rst)"
        else:
            blank = "?" if name in blanks else value
        if name != "content":
            shown.append(f"{name}={quoted(blank)}" if "(" not in blank else f"{name}={blank}")
    blanks = {name: told for name, told in blanks.items() if told[1] != "rule" or chore.rules}
    if not blanks:
        return None
    return f"Fill in: {made[0]} {' '.join(shown)}", blanks


def quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def filled(text: str) -> dict[str, str]:
    """What a line that the model wrote says."""
    line = next((line for line in text.splitlines() if "=" in line), "")
    return {name: value.strip('"') for name, value in _CALL.findall(line)}


class ByModel(Run):
    """A world whose last calls a model writes."""

    def __init__(self, world: World, name: str, window: int) -> None:
        super().__init__(world, name, window, recall=False)
        self.system = SYSTEM
        self.blanks: dict[str, list[bool]] = defaultdict(list)
        self.asked: tuple[Chore, dict[str, tuple[str, str]]] | None = None
        self.wrong: list[dict[str, Any]] = []

    async def ask(self, number: int) -> list[dict[str, Any]] | None:
        """The request for a chore's form; None where it has none."""
        from refold import messages as m

        chore, made = self.world.chores[number], form(self.world.chores[number])
        self.session.append(m.user(f"{chore.message}\n{made[0]}" if made else chore.message))
        for call in (*chore.fresh, *chore.by_rule):
            await self.view()
            self.say("", call)
        request = await self.view()
        if made is None or request is None:
            self.say(chore.says.format(**{fact.kind: fact.value for fact in chore.needs}))
            self.asked = None
            return None
        self.asked = chore, made[1]
        return request

    def take(self, text: str, request: Sequence[dict[str, Any]]) -> None:
        """Score what was written, and do it."""
        assert self.asked
        chore, blanks = self.asked
        truth = right(chore)
        assert truth
        given = filled(text)
        good = {
            name: value in (written := given.get(name, "").rstrip(".,"), written.rpartition(".")[0])
            for name, (value, _) in blanks.items()
        }
        for name, fine in good.items():
            self.blanks[blanks[name][1]].append(fine)
        self.scored += 1
        self.right += all(good.values())
        if not all(good.values()):
            stated = {
                name: any(value in str(message["content"]) for message in request)
                for name, (value, _) in blanks.items()
            }
            self.wrong.append(
                {
                    "seed": self.world.seed,
                    "chore": chore.kind,
                    "asked": form(chore),
                    "wrote": text[:160],
                    "in_view": stated,
                }
            )
        call: Call = truth[0], tuple((name, given.get(name, value)) for name, value in truth[1])
        self.say("", call)
        self.say(
            chore.says.format(
                **{
                    fact.kind: next(
                        (given.get(name, "-") for name, told in truth[1] if told == fact.value), "-"
                    )
                    for fact in chore.needs
                }
            )
        )


def text_of(request: Sequence[dict[str, Any]]) -> str:
    """The request in ChatML; calls as lines of the form that the model is to write."""
    parts: list[str] = []
    for message in request:
        content = message.get("content") or ""
        content = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
        for made in message.get("tool_calls", ()):
            arguments = json.loads(made["function"]["arguments"])
            line = " ".join(f"{name}={quoted(str(value))}" for name, value in arguments.items())
            content = f"{content}\n{made['function']['name']} {line}".strip()
        role = {"tool": "user"}.get(message["role"], message["role"])
        content = f"<tool_response>\n{content}\n</tool_response>" if message["role"] == "tool" else content
        parts.append(f"<|im_start|>{role}\n{content}<|im_end|>\n")
    return "".join(parts)


class Weights:
    def __init__(self, path: Path | None) -> None:
        import torch
        import transformers

        self.torch, self.device = torch, "cuda" if torch.cuda.is_available() else "cpu"
        if path is None:
            config = transformers.Qwen2Config(
                vocab_size=300,
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=2,
                num_key_value_heads=1,
            )
            self.model, self.tokenizer, self.window = transformers.Qwen2ForCausalLM(config), None, 32_768
        else:
            place = {"pretrained_model_name_or_path": str(path.resolve().parent), "gguf_file": path.name}
            precision = torch.bfloat16 if self.device == "cuda" else torch.float32
            self.model = transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=precision)
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(**place)
            self.window = int(self.model.config.max_position_embeddings)
        self.model = self.model.to(self.device).eval()
        self.name = torch.cuda.get_device_name() if self.device == "cuda" else "cpu"

    def encode(self, text: str) -> list[int]:
        if self.tokenizer is None:
            return [min(ord(letter), 299) for letter in text[-400:]]
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def decode(self, ids: Sequence[int]) -> str:
        return (
            "".join(map(chr, ids))
            if self.tokenizer is None
            else self.tokenizer.decode(ids, skip_special_tokens=True)
        )

    def complete(self, prompts: Sequence[str]) -> list[str | None]:
        """One line for each prompt; None: it is too long for the model."""
        ids = [self.encode(prompt) for prompt in prompts]
        found: list[str | None] = [None] * len(ids)
        order = sorted(
            (at for at, one in enumerate(ids) if len(one) + NEW <= self.window), key=lambda at: -len(ids[at])
        )
        while order:
            fitting = max(1, PADDED // len(ids[order[0]]))
            batch, order = order[:fitting], order[fitting:]
            for at, text in zip(batch, self._batch([ids[at] for at in batch]), strict=True):
                found[at] = text
        return found

    def _batch(self, ids: Sequence[Sequence[int]]) -> list[str]:
        torch, longest = self.torch, max(map(len, ids))
        with torch.no_grad():
            tokens = torch.tensor([[0] * (longest - len(one)) + list(one) for one in ids], device=self.device)
            mask = torch.tensor(
                [[0] * (longest - len(one)) + [1] * len(one) for one in ids], device=self.device
            )
            places = (mask.cumsum(-1) - 1).clamp(min=0)
            cache, written = None, [list[int]() for _ in ids]
            open_rows = set(range(len(ids)))
            for _ in range(NEW):
                out = self.model.model(
                    tokens, attention_mask=mask, position_ids=places, past_key_values=cache, use_cache=True
                )
                cache = out.past_key_values
                following = self.model.lm_head(out.last_hidden_state[:, -1]).argmax(-1)
                for row, token in enumerate(following.tolist()):
                    if row in open_rows:
                        written[row].append(token)
                        text = self.decode(written[row])
                        if ("\n" in text and text.strip()) or token == getattr(
                            self.tokenizer, "eos_token_id", None
                        ):
                            open_rows.discard(row)
                if not open_rows:
                    break
                tokens = following[:, None]
                mask = torch.cat([mask, torch.ones_like(tokens)], -1)
                places = places[:, -1:] + 1
        return [self.decode(one).strip() for one in written]


async def work(
    weights: Weights, runs: Sequence[ByModel], out: Path, about: dict[str, Any], seconds: float
) -> None:
    """Chore by chore, all views of all worlds together; what there is is written after each."""
    began = time.monotonic()
    for number in range(max(len(run.world.chores) for run in runs)):
        here = [run for run in runs if number < len(run.world.chores)]
        asked = [(run, request) for run in here if (request := await run.ask(number)) is not None]
        prompts = [f"{text_of(request)}<|im_start|>assistant\n" for _, request in asked]
        for (run, request), text in zip(asked, weights.complete(prompts), strict=True):
            run.take(text or "", request)
        used = time.monotonic() - began
        write(out, runs, about | {"seconds": round(used, 1), "chores": number + 1})
        print(
            f"chore {number}: {len(prompts)} prompts, {used:.0f} s, right {sum(run.right for run in runs)} of {sum(run.scored for run in runs)}",
            flush=True,
        )
        if used > seconds:
            print("out of time", flush=True)
            return


def write(out: Path, runs: Sequence[ByModel], about: dict[str, Any]) -> None:
    views: dict[str, Any] = {}
    for name in dict.fromkeys((run.name, run.window) for run in runs):
        mine = [run for run in runs if (run.name, run.window) == name and run.scored]
        blanks = {
            source: figure(
                [sum(run.blanks[source]) / len(run.blanks[source]) for run in mine if run.blanks[source]]
            )
            for source in ("user", "tool", "agent", "rule", "no need")
        }
        seen = [fine for run in mine for row in run.wrong for fine in row["in_view"].values()]
        views[f"{name[0]}/{name[1]}"] = {
            "success": figure([run.right / run.scored for run in mine]), "worlds": len(mine), "chores": sum(run.scored for run in mine),
            "blanks": blanks, "tokens": figure([run.bill.tokens / max(run.bill.requests, 1) for run in mine]),
            "wrong_with_value_in_view": sum(seen), "wrong": [row for run in mine[:6] for row in run.wrong[:6]],
        }  # fmt: skip
    out.write_text(json.dumps(about | {"views": views}, indent=1, ensure_ascii=False))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("weights", type=Path, nargs="?")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worlds", type=int, default=24)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--store", type=Path, help="write what a run left as a stored result; run nothing")
    given = parser.parse_args()
    if given.store:
        found = json.loads(given.store.read_text())
        made = found.pop("made") | {"load_before": [], "load_after": []}
        made["machine"]["processor"] = found["device"]
        results.write("closed_loop_gpu", found, seconds=found["seconds"], before=[], quick=False, made=made)
        return
    if given.out is None:
        parser.error("--out says where to write")
    if (given.weights is None) != given.tiny:
        parser.error("give the weights, or --tiny for a random model")
    weights = Weights(given.weights)
    runs = [
        ByModel(World(seed, given.steps), name, window)
        for name, window in VIEWS
        for seed in range(given.worlds)
    ]
    about = {"model": given.weights.stem if given.weights else "random", "device": weights.name, "worlds": given.worlds,
             "made": results.surroundings()}  # fmt: skip
    asyncio.run(work(weights, runs, given.out, about, given.seconds))


if __name__ == "__main__":
    main()
