"""The report in a real browser. Needs Chromium; says so where there is none."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from refold import loop, presets
from refold.compare import budgets
from refold.compare.report import page
from refold.compare.run import ComparisonPlan, compare
from tests.browser import CHROMIUM, FLAGS, MISSING
from tests.compare.hostile import RUN, attacks, hostile_session
from tests.compare.sessions import agent_session

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason=MISSING)]


def dom(document: str, folder: Path) -> str:
    """The page as the browser sees it after everything has run."""
    file = folder / "page.html"
    file.write_text(document, "utf-8")
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--virtual-time-budget=3000",
            *FLAGS,
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "<html" in done.stdout, done.stderr[-2_000:]
    return done.stdout


@pytest.fixture
def beacon() -> Iterator[tuple[str, list[str]]]:
    """A server that nobody may ask, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/x", asked
    server.shutdown()
    server.server_close()


def pwned(seen: str) -> bool:
    return re.search(r"<html[^>]*data-pwned", seen) is not None or "<title>pwned" in seen


def hostile_page(beacon: str) -> str:
    name = f"<img src={beacon} onerror={RUN}>.jsonl"
    return page(
        loop.run(
            compare(
                [(name, hostile_session(beacon))],
                ComparisonPlan(presets.NAMES, budgets.parse_budgets("2k,30%")),
            )
        )
    )


def test_nothing_of_a_hostile_transcript_runs(tmp_path: Path, beacon: tuple[str, list[str]]) -> None:
    url, asked = beacon
    seen = dom(hostile_page(url), tmp_path)
    assert not pwned(seen)
    assert "<title>refold compare</title>" in seen
    assert 'data-ready="1"' in seen and "Never do this" in seen, "the reader did not open"
    assert seen.count("<script") == 2 and "<iframe" not in seen and "<img" not in seen
    assert asked == []


def test_nothing_runs_even_without_the_policy(tmp_path: Path, beacon: tuple[str, list[str]]) -> None:
    """Escaping alone must hold: the policy is the second wall."""
    url, asked = beacon
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", hostile_page(url))
    seen = dom(bare, tmp_path)
    assert not pwned(seen) and seen.count("<script") == 2 and "Never do this" in seen
    assert asked == []


def test_the_policy_alone_stops_a_script_that_got_in(tmp_path: Path, beacon: tuple[str, list[str]]) -> None:
    url, asked = beacon
    good = page(
        loop.run(compare([("a", agent_session(2))], ComparisonPlan(("refold",), budgets.parse_budgets("2k"))))
    )
    seen = dom(good.replace("</main>", "".join(attacks(url)[:4]) + "</main>"), tmp_path)
    assert not pwned(seen)
    assert asked == []


def test_the_browser_would_notice(tmp_path: Path, beacon: tuple[str, list[str]]) -> None:
    """The attacks do run on a page without walls: otherwise the tests above show nothing."""
    url, asked = beacon
    seen = dom(f"<!doctype html><html><body>{''.join(attacks(url)[:4])}</body></html>", tmp_path)
    assert pwned(seen) and asked


def test_fifty_transcripts_are_laid_out(tmp_path: Path) -> None:
    sessions = [(f"{n:02}.jsonl", agent_session(3, size=3_000)) for n in range(50)]
    done = loop.run(compare(sessions, ComparisonPlan(("refold", "pi"), budgets.parse_budgets("1500"))))
    seen = dom(page(done), tmp_path)
    assert seen.count('<details class="transcript">') == 50 and 'data-ready="1"' in seen
