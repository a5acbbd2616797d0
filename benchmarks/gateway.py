"""What the gateway adds to the first byte, and what it bears: many streams at once, with sessions written down.

`python -m benchmarks gateway [--quick]`. Clients, gateway and upstream are processes of their own. The same load
goes straight to the upstream, through a bare pass-through made with the same libraries, through the gateway and,
where `.litellm-venv` has it, through LiteLLM's proxy; one after the other, on the same machine.

A stream lasts half a minute, as answers of models do: a thousand open ones are 33 requests a second. `burst` is three
times that: streams of ten seconds.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.gateway_parts import KINDS, RAMP, kind_at

ROOT = Path(__file__).resolve().parents[1]
STREAMS, LASTING, SECONDS = 1000, 30.0, 60.0
BURST = 10.0
"""How long a stream lasts where three times as many requests come."""
FEW = 20
"""By how much there are fewer streams where LiteLLM is to come to an end."""
FOLDED = 50_000
"""Window of the model whose requests are folded; of all others it is larger than what they send."""

Figures = dict[str, Any]


def _python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


@contextmanager
def started(command: list[str]) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server that says its address first."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    try:
        assert process.stdout
        yield process.stdout.readline().strip(), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(200)


@contextmanager
def gateway(upstream: str, store: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    config = store.with_suffix(".toml")
    config.write_text(
        f'[gateway]\nupstream = "{upstream}"\nport = 0\nstore = "sqlite:{store}"\nwindow = 3_000_000\n'
        f"[gateway.models.small]\nwindow = {FOLDED}\n"
    )
    with started(_python("refold", "serve", "--config", str(config))) as served:
        yield served


def load(url: str, streams: int, lasting: float, seconds: float) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        seen = Path(folder) / "seen.json"
        given = (url, str(streams), str(lasting), str(seconds), str(seen))
        limit = RAMP + seconds + lasting + 60
        subprocess.run(
            _python("benchmarks.gateway_parts", "clients", *given), cwd=ROOT, check=True, timeout=limit
        )
        return json.loads(seen.read_text())


def percentiles(times: list[float]) -> Figures:
    cuts = statistics.quantiles(times, n=100)
    return {"p50_ms": round(cuts[49], 1), "p99_ms": round(cuts[98], 1), "max_ms": round(max(times), 1)}


def figures(seen: Figures) -> Figures:
    """Of the requests that came when all streams were open."""
    first = seen.pop("first")
    began = first[0][0] + RAMP
    return {**seen, **percentiles([took for at, took in first if at > began])}


def processor(process: subprocess.Popen[str]) -> Figures:
    """Seconds of the processor that it, and what it started, took."""
    tick, own, others = os.sysconf("SC_CLK_TCK"), 0.0, 0.0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        took = (int(fields[11]) + int(fields[12])) / tick
        if process.pid == int(path.parent.name):
            own += took
        elif process.pid == int(fields[1]):
            others += took
    return {"processor_s": round(own, 1), **({"worker_processor_s": round(others, 1)} if others else {})}


def recorded(store: Path) -> Figures:
    """What the sessions hold."""
    from refold.stores import open_store

    opened = open_store(f"sqlite:{store}").store
    infos = list(opened.sessions())
    opened.close()
    return {"sessions": len(infos), "entries": sum(info.entries for info in infos)}


def through_bare(upstream: str, *given: Any) -> Figures:
    with started(_python("benchmarks.gateway_parts", "bare", upstream)) as (url, process):
        return {**figures(load(url, *given)), **processor(process)}


def through_gateway(upstream: str, store: Path, *given: Any) -> Figures:
    with gateway(upstream, store) as (url, process):
        found = {**figures(load(url, *given)), **processor(process)}
        began = time.perf_counter()
    return {**found, "written_after_s": round(time.perf_counter() - began, 1), **recorded(store)}


def disturbed(upstream: str, store: Path, streams: int, seconds: float) -> Figures:
    """What requests of 2 MB, and folds, do to the first bytes of others: they come for some seconds and then not, so
    that all else is the same."""
    with gateway(upstream, store) as (url, _):
        other = subprocess.Popen(_python("benchmarks.gateway_parts", "interrupt", url), cwd=ROOT)
        try:
            seen = load(url, streams, 5.0, seconds)
        finally:
            other.kill()
            other.wait()
    first = [(kind_at(at), took) for at, took in seen["first"]]
    each = {kind: [took for found, took in first if found == kind] for kind in KINDS}
    return {kind: {"requests": len(times), **percentiles(times)} for kind, times in each.items()}


def through_litellm(upstream: str, folder: Path, *given: Any) -> Figures:
    program = ROOT / ".litellm-venv" / "bin" / "litellm"
    if not program.exists():
        return {
            "skipped": "LiteLLM is not installed: python -m venv .litellm-venv; .litellm-venv/bin/pip install 'litellm[proxy]'"
        }
    config = folder / "litellm.yaml"
    config.write_text(
        "model_list:\n  - model_name: m\n    litellm_params:\n      model: openai/m\n"
        f"      api_base: {upstream}/v1\n      api_key: key\n"
    )
    command = [str(program), "--config", str(config), "--port", "48731", "--host", "127.0.0.1"]
    # No key, as with us on one machine; and no prices from elsewhere.
    environment = {
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env={**os.environ, **environment},
    )
    try:
        _wait_for("http://127.0.0.1:48731/health/liveliness")
        return {
            **figures(load("http://127.0.0.1:48731", *given)),
            **processor(process),
            "version": _version(),
        }
    except (TimeoutError, subprocess.SubprocessError) as error:
        return {"skipped": f"LiteLLM did not come to an end ({type(error).__name__})", "version": _version()}
    finally:
        process.kill()
        process.wait(30)


def _version() -> str:
    command = [str(ROOT / ".litellm-venv" / "bin" / "pip"), "show", "litellm"]
    told = subprocess.run(command, capture_output=True, text=True).stdout
    return next((line.split()[-1] for line in told.splitlines() if line.startswith("Version")), "unknown")


def _wait_for(url: str) -> None:
    from urllib.request import urlopen

    for _ in range(240):
        try:
            urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(url)


def run(*, quick: bool = False) -> Figures:
    streams, seconds = (60, 10.0) if quick else (STREAMS, SECONDS)
    # Others may be at work on this machine: with a priority of its own (`echo -10 > /proc/self/autogroup`) a run gets
    # what it needs.
    group = Path("/proc/self/autogroup")
    priority = group.read_text().split()[-1] if group.exists() else "0"
    found: Figures = {
        "priority": priority,
        "streams": streams,
        "seconds": seconds,
        "lasting": LASTING,
        "burst_lasting": BURST,
    }
    with (
        tempfile.TemporaryDirectory() as name,
        started(_python("benchmarks.gateway_parts", "upstream")) as (upstream, _),
    ):
        folder = Path(name)

        def note(part: str, figures: Figures) -> None:
            found[part] = {**figures, "load": round(os.getloadavg()[0], 1)}
            print(part, json.dumps(found[part]), file=sys.stderr, flush=True)

        usual, burst = (streams, LASTING, seconds), (streams, BURST, seconds / 2)
        few = (max(1, streams // FEW), LASTING, seconds / 2)
        note("direct", figures(load(upstream, *usual)))
        note("bare", through_bare(upstream, *usual))
        note("gateway", through_gateway(upstream, folder / "usual.db", *usual))
        note("litellm", through_litellm(upstream, folder, *usual))
        note("few_bare", through_bare(upstream, *few))
        note("few_gateway", through_gateway(upstream, folder / "few.db", *few))
        note("few_litellm", through_litellm(upstream, folder, *few))
        note("disturbed", disturbed(upstream, folder / "disturbed.db", min(streams, 200), 1.5 * seconds))
        note("burst_bare", through_bare(upstream, *burst))
        note("burst_gateway", through_gateway(upstream, folder / "burst.db", *burst))
    for key in ("p50_ms", "p99_ms"):
        for part in ("gateway", "litellm", "burst_gateway", "few_gateway", "few_litellm"):
            beside = f"{part.rpartition('_')[0]}_bare".lstrip("_")
            if key in found[part]:
                found[part][f"added_{key}"] = round(found[part][key] - found[beside][key], 1)
                found[part][f"ratio_{key}"] = round(found[part][key] / found[beside][key], 2)
    return found


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=1))
