"""What the gateway adds to the first byte, and what it bears: many streams at once, with sessions written down.

`python -m benchmarks gateway [--quick]`. Clients, gateway and upstream are processes of their own. The same load
goes straight to the upstream, through a bare pass-through made with the same libraries, through the gateway and,
where `.litellm-venv` has it, through LiteLLM's proxy; one after the other, on the same machine.
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

ROOT = Path(__file__).resolve().parents[1]
STREAMS, SECONDS = 1000, 60.0
SETTLED = 10.0
"""Seconds after which every stream has begun; what came before is not counted."""
WINDOW = 1_000_000


def _python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


@contextmanager
def started(command: list[str], **environment: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server that says its address first."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
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
        f'[gateway]\nupstream = "{upstream}"\nport = 0\nstore = "sqlite:{store}"\nwindow = {WINDOW}\n'
        "[gateway.models.small]\nwindow = 50_000\n"
    )
    with started(_python("refold", "serve", "--config", str(config))) as served:
        yield served


def load(url: str, streams: int, seconds: float, model: str = "m") -> dict[str, Any]:
    command = _python("benchmarks.gateway_parts", "clients", url, str(streams), str(seconds), model)
    limit = 2 * seconds + 60
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True, timeout=limit)
    return json.loads(done.stdout)


def figures(seen: dict[str, Any]) -> dict[str, Any]:
    first = sorted(took for at, took in seen.pop("first") if at > SETTLED)
    cuts = statistics.quantiles(first, n=100)
    return {**seen, "p50_ms": round(cuts[49], 1), "p99_ms": round(cuts[98], 1), "max_ms": round(first[-1], 1)}


def _processor(process: subprocess.Popen[str]) -> float:
    """Seconds of the processor that it and what it started took."""
    took = 0.0
    tick = os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if process.pid in (int(path.parent.name), int(fields[1])):
            took += (int(fields[11]) + int(fields[12])) / tick
    return round(took, 1)


def recorded(store: Path) -> dict[str, int]:
    """What the sessions hold."""
    from refold.stores import open_store

    opened = open_store(f"sqlite:{store}").store
    infos = list(opened.sessions())
    opened.close()
    return {"sessions": len(infos), "entries": sum(info.entries for info in infos)}


def through_gateway(upstream: str, streams: int, seconds: float, folder: Path) -> dict[str, Any]:
    store = folder / "load.db"
    with gateway(upstream, store) as (url, process):
        found = figures(load(url, streams, seconds))
        found["processor_s"] = _processor(process)
        began = time.perf_counter()
    return {**found, "written_after_s": round(time.perf_counter() - began, 1), **recorded(store)}


def disturbed(upstream: str, streams: int, folder: Path) -> dict[str, Any]:
    """What requests of 2 MB, and folds, do to the first bytes of others."""
    found: dict[str, Any] = {}
    for name, size, model in (("alone", 0, ""), ("2 MB", 2_000_000, "m"), ("folds", 300_000, "small")):
        with gateway(upstream, folder / f"{size}.db") as (url, _):
            other = None
            if size:
                command = _python("benchmarks.gateway_parts", "interrupt", url, str(size), "1", model)
                other = subprocess.Popen(command, cwd=ROOT)
            found[name] = figures(load(url, streams, 25.0))
            if other is not None:
                other.kill()
                other.wait()
    return found


def litellm(upstream: str, streams: int, seconds: float, folder: Path) -> dict[str, Any]:
    program = ROOT / ".litellm-venv" / "bin" / "litellm"
    if not program.exists():
        return {"skipped": "LiteLLM is not installed in .litellm-venv"}
    config = folder / "litellm.yaml"
    config.write_text(
        "model_list:\n  - model_name: m\n    litellm_params:\n      model: openai/m\n"
        f"      api_base: {upstream}/v1\n      api_key: key\n"
    )
    command = [str(program), "--config", str(config), "--port", "48731", "--host", "127.0.0.1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
    try:
        _wait_for("http://127.0.0.1:48731/health/liveliness")
        found = figures(load("http://127.0.0.1:48731", streams, seconds))
        return {**found, "processor_s": _processor(process)}
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        return {"skipped": f"LiteLLM did not come to an end: {error}"}
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(url: str) -> None:
    from urllib.request import urlopen

    for _ in range(120):
        try:
            urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(0.5)
    raise TimeoutError(url)


def run(*, quick: bool = False) -> dict[str, Any]:
    streams, seconds = (60, 16.0) if quick else (STREAMS, SECONDS)
    found: dict[str, Any] = {"streams": streams, "seconds": seconds, "load_before": os.getloadavg()[0]}
    with (
        tempfile.TemporaryDirectory() as name,
        started(_python("benchmarks.gateway_parts", "upstream")) as (upstream, _),
    ):
        folder = Path(name)

        def note(part: str, figures: dict[str, Any]) -> None:
            found[part] = {**figures, "load": round(os.getloadavg()[0], 1)}
            print(part, json.dumps(found[part]), file=sys.stderr, flush=True)

        note("direct", figures(load(upstream, streams, seconds)))
        with started(_python("benchmarks.gateway_parts", "bare", upstream)) as (url, process):
            seen = figures(load(url, streams, seconds))
            note("bare", {**seen, "processor_s": _processor(process)})
        note("gateway", through_gateway(upstream, streams, seconds, folder))
        note("disturbed", disturbed(upstream, min(streams, 200), folder))
        note("litellm", litellm(upstream, streams, seconds, folder))
    found["load_after"] = os.getloadavg()[0]
    for key in ("p50_ms", "p99_ms"):
        for name in ("bare", "gateway", "litellm"):
            if key in found[name]:
                found[name][f"added_{key}"] = round(found[name][key] - found["direct"][key], 1)
    return found


if __name__ == "__main__":
    print(json.dumps(run(quick="--quick" in sys.argv), indent=1))
