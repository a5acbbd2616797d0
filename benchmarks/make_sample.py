"""Makes the sample session that comes with the package: `python -m benchmarks.make_sample`.

A bug hunt in a small web service, told from a script: the user asks (in English and in Chinese, with rules in
the middle of sentences), the agent reads, searches, edits and runs tests. Edits really change the made-up
repository, so later readings show them. The same bytes every time.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import sample_outputs as outputs
from benchmarks.sample_script import START, Script
from benchmarks.sample_texts import DIFF, OVERLAP_TESTS, SYSTEM, TRACE
from refold import entries as e
from refold.protocols import SessionInfo
from refold.stores.jsonl import write_session_file

TARGET = Path(__file__).resolve().parents[1] / "src" / "refold" / "data" / "sample.jsonl.gz"


def make() -> list[e.MessageEntry]:
    s = Script()
    s.system(SYSTEM)
    for chapter in (double_booking, invoices, locked_database, reminders, chinese, tariffs, review):
        chapter(s)
    return s.entries


def double_booking(s: Script) -> None:
    s.user(
        "Good morning. Since last weekend the marina office sees berth 12 booked twice in the night of the clock "
        "change (bookings 4471 and 4472), and other bookings are refused although the berth is free. Please find "
        "out why and fix it. Two things before you start: never touch the files in migrations/, they are already "
        "deployed, and please do not add any new dependencies, the server has no internet access. I would like to "
        "have a failing test first, then the fix.",
        after=1,
    )
    s.say("I will look at how overlaps are computed, write a failing test, and only then change anything.")
    s.todo(
        ("understand how overlaps are computed", "in_progress"),
        ("failing test for the clock change", "pending"),
        ("fix and run all tests", "pending"),
    )
    s.tool("Glob", "\n".join(sorted(s.files)), pattern="**/*")
    s.read("README.md")
    s.grep("overlaps", "Who decides whether a berth is free?")
    s.read("harbour/bookings/overlap.py")
    s.read("harbour/bookings/model.py")
    s.read("harbour/bookings/repository.py")
    s.read("harbour/bookings/routes.py")
    s.read("harbour/clock.py")
    s.read("tests/test_bookings.py")
    s.bash(
        'sqlite3 harbour.db "select id, berth_id, arrives_at, leaves_at from bookings where id in (4471, 4472)"',
        "4471|12|2026-03-28T22:00:00+00:00|2026-03-29T01:30:00+00:00\n4472|12|2026-03-29T01:50:00+00:00|2026-03-30T09:00:00+00:00",
        "The two bookings themselves:",
    )
    fix_overlap(s)


def fix_overlap(s: Script) -> None:
    s.say(
        "overlaps() compares wall-clock times without a zone. In the night of the clock change 02:00–03:00 does not "
        "exist, so a stay that ends at 01:30 UTC looks an hour later than it is. First the failing test."
    )
    s.write("tests/test_overlap.py", OVERLAP_TESTS)
    s.pytest("It should fail now:", test_stays_across_the_clock_change_do_not_collide=TRACE)
    s.edit(
        "harbour/bookings/overlap.py",
        '''    return naive(one.arrives_at) < naive(other.leaves_at) + TURNAROUND and naive(other.arrives_at) < naive(
        one.leaves_at
    ) + TURNAROUND


def naive(moment: datetime) -> datetime:
    """Local wall-clock time of the marina."""
    return moment.astimezone().replace(tzinfo=None)
''',
        """    return (
        one.arrives_at < other.leaves_at + TURNAROUND and other.arrives_at < one.leaves_at + TURNAROUND
    )
""",
        "Aware datetimes compare correctly by themselves.",
    )
    s.pytest()
    s.say(
        "Fixed: harbour/bookings/overlap.py compares aware times; tests/test_overlap.py holds it. All tests pass."
    )


def invoices(s: Script) -> None:
    s.user(
        "Great. Next: accounting says that invoice 2026-0198 is one cent off. The docstring says half to even, the "
        "tax office wants exactly that. Always keep amounts in integer cents, I never want to see a float in "
        "harbour/invoices. And don't rename public functions, other services import them.",
        after=400,
    )
    for path in ("model.py", "repository.py", "routes.py", "rounding.py"):
        s.read(f"harbour/invoices/{path}")
    s.read("tests/test_invoices.py")
    s.grep("vat_cents")
    s.bash(
        "sqlite3 harbour.db \"select number, net_cents, vat_cents from invoices where number = '2026-0198'\"",
        "2026-0198|18650|4663",
    )
    s.say("18650 × 0.25 = 4662.5: half up gives 4663, half to even 4662. The code rounds half up.")
    s.edit(
        "harbour/invoices/rounding.py",
        "from decimal import ROUND_HALF_UP, Decimal",
        "from decimal import ROUND_HALF_EVEN, Decimal",
    )
    s.edit("harbour/invoices/rounding.py", "rounding=ROUND_HALF_UP", "rounding=ROUND_HALF_EVEN")
    s.write(
        "tests/test_rounding.py",
        '"""Rounding of VAT."""\n\nfrom decimal import Decimal\n\nfrom harbour.invoices.rounding import vat_cents\n\n\ndef test_half_a_cent_goes_to_the_even_neighbour():\n    assert vat_cents(18650, Decimal("0.25")) == 4662\n    assert vat_cents(18654, Decimal("0.25")) == 4664\n',
    )
    s.pytest()
    s.say(
        "vat_cents() rounds half to even now; tests/test_rounding.py has the two cases. No name was changed."
    )


def locked_database(s: Script) -> None:
    s.user(
        "Now the 500s. Every morning around eight there are some. Logs of the last three days are in /var/log/harbour. "
        "You must not restart the service during the day, and don't write to harbour.db.",
        after=900,
    )
    for number, day in enumerate(("2026-03-10", "2026-03-11", "2026-03-12")):
        s.bash(f"head -c 36000 /var/log/harbour/{day}.log", outputs.server_log(number, 320, day)[:36_000])
    s.bash("grep -c 'database is locked' /var/log/harbour/2026-03-12.log", "37")
    s.grep("sqlite3.connect")
    s.grep("busy_timeout")
    s.read("harbour/settings.py")
    s.read("harbour/audit/repository.py")
    s.read("harbour/audit/model.py")
    s.read("harbour/audit/routes.py")
    s.say(
        "HARBOUR_BUSY_TIMEOUT_MS defaults to 0: a second writer fails at once instead of waiting. The nightly "
        "reminders job and the office start at the same time."
    )
    s.edit("harbour/settings.py", '"HARBOUR_BUSY_TIMEOUT_MS", "0"', '"HARBOUR_BUSY_TIMEOUT_MS", "5000"')
    s.pytest()
    s.say("The default is 5000 ms now. It takes effect with the next restart, which I leave to you.")


def reminders(s: Script) -> None:
    s.user(
        "ok. Why does the reminders job take so long that it still runs at eight? Prefer a small change over a "
        "clever one.",
        after=240,
    )
    for path in ("model.py", "repository.py", "routes.py"):
        s.read(f"harbour/reminders/{path}")
    s.read("tests/test_reminders.py")
    for path in ("model.py", "repository.py"):
        s.read(f"harbour/customers/{path}")
    s.bash(
        "python -m cProfile -s cumtime -m harbour.reminders.job --dry-run | head -40",
        "\n".join(
            f"{9000 - 211 * n:6}    {0.9 / (n + 1):.3f}    {61.4 / (n + 1):.3f} harbour/{folder}/repository.py:{18 + n}(by_{name})"
            for n, (folder, name) in enumerate(
                [
                    ("bookings", "berth_id"),
                    ("customers", "full_name"),
                    ("vessels", "owner_id"),
                    ("reminders", "booking_id"),
                ]
                * 5
            )
        ),
    )
    s.bash(
        'sqlite3 harbour.db "explain query plan select * from reminders where booking_id = 7"',
        "SCAN reminders",
    )
    s.say(
        "Every reminder scans the whole table: there is no index on reminders.booking_id. An index would be a "
        "migration, which I may not touch, so the job reads all open reminders once instead."
    )
    s.write(
        "harbour/reminders/job.py",
        '"""Sends what is due. Reads all open reminders once: the table has no index by booking."""\n\nfrom __future__ import annotations\n\nfrom collections import defaultdict\n\nfrom harbour.clock import now\nfrom harbour.reminders.repository import ReminderRepository\n\n\ndef due(repository: ReminderRepository) -> dict[int, list]:\n    found = defaultdict(list)\n    for reminder in repository.by_sent_at(None, limit=10_000):\n        if reminder.send_at <= now():\n            found[reminder.booking_id].append(reminder)\n    return dict(found)\n',
    )
    s.pytest()
    s.bash(
        "time python -m harbour.reminders.job --dry-run",
        "312 reminders due\n\nreal\t0m1.840s\nuser\t0m1.611s",
    )
    s.say("The dry run takes 1.8 s instead of 61 s. New: harbour/reminders/job.py.")


def chinese(s: Script) -> None:
    s.user(
        "我同事接手一下。客户反馈取消预订以后泊位没有释放。请先分析原因再改代码，不要修改 harbour/payments 目录下的任何文件，"
        "支付那边正在审计。提交信息必须用英文写，代码注释也用英文。",
        after=2_400,
    )
    for name in ("payments", "bookings"):
        s.read(f"harbour/{name}/repository.py")
    s.read("harbour/payments/model.py")
    s.read("harbour/payments/routes.py")
    s.grep("hold_token")
    s.grep("cancel")
    s.say(
        "原因：overlaps() 不看 state，已取消（cancelled）的预订仍然占用泊位。我只改 harbour/bookings/overlap.py，"
        "payments 目录保持不动。"
    )
    s.edit(
        "harbour/bookings/overlap.py",
        "    if one.berth_id != other.berth_id:\n        return False\n",
        '    if one.berth_id != other.berth_id or "cancelled" in (one.state, other.state):\n        return False\n',
    )
    s.files["tests/test_overlap.py"] += (
        '\n\ndef test_a_cancelled_booking_frees_its_berth(connection):\n    first = make(Booking, berth_id=12, state="cancelled")\n    assert not overlaps(first, make(Booking, berth_id=12))\n'
    )
    s.write("tests/test_overlap.py", s.files["tests/test_overlap.py"])
    s.pytest()
    s.bash(
        "git status --short",
        " M harbour/bookings/overlap.py\n M harbour/invoices/rounding.py\n M harbour/settings.py\n?? harbour/reminders/job.py\n?? tests/test_overlap.py\n?? tests/test_rounding.py",
    )
    s.say("已修复，测试全部通过：test_a_cancelled_booking_frees_its_berth。尚未提交。")
    s.user("好的，提交之前必须先跑完全部测试，不要推送到 main 分支。", after=120)
    s.pytest()
    s.bash(
        "git switch -c fix/berth-overlap && git commit -qam 'Free the berth of a cancelled booking' && git log -1 --format=%h",
        "Switched to a new branch 'fix/berth-overlap'\n7f3c9ae",
    )
    s.say("已提交到 fix/berth-overlap 分支（7f3c9ae），没有推送。")


def tariffs(s: Script) -> None:
    s.user(
        "Back again, thanks. Last one for today: for a stay from 30 October to 2 November the price is that of the "
        "summer tariff for all nights. It should be per night. The price list at https://harbour.example/prices is "
        "the truth. Make sure that existing invoices are not recomputed.",
        after=1_500,
    )
    folders = ("harbour/tariffs/", "harbour/vessels/", "harbour/berths/", "tests/")
    listed = sorted(path for path in s.files if path.startswith(folders))
    s.tool("Glob", "\n".join(listed), "Where are prices computed?", pattern="{harbour/*,tests}/*.py")
    for name in ("tariffs", "vessels", "berths"):
        for path in ("model.py", "repository.py", "routes.py"):
            s.read(f"harbour/{name}/{path}")
    s.read("tests/test_tariffs.py")
    s.read("harbour/invoices/rounding.py")
    s.grep("per_metre_night_cents")
    s.write(
        "harbour/tariffs/pricing.py",
        '"""The price of a stay, night by night. Issued invoices are never computed again."""\n\nfrom __future__ import annotations\n\nfrom datetime import date, timedelta\n\nfrom harbour.tariffs.model import Tariff\n\n\ndef price_cents(length_cm: int, first: date, nights: int, tariffs: list[Tariff]) -> int:\n    return sum(night_cents(length_cm, first + timedelta(days=n), tariffs) for n in range(nights))\n\n\ndef night_cents(length_cm: int, night: date, tariffs: list[Tariff]) -> int:\n    for tariff in tariffs:\n        if tariff.valid_from <= night and (tariff.valid_until is None or night <= tariff.valid_until):\n            return -(-length_cm * tariff.per_metre_night_cents // 100)\n    raise LookupError(f"no tariff for {night}")\n',
        "Each night with the tariff that is valid in it:",
    )
    s.bash(
        "python -m pytest tests/test_tariffs.py",
        "E   LookupError: no tariff for 2026-10-31\n===== 1 failed, 5 passed in 0.91s =====\n(exit 1)",
        error=True,
    )
    s.say(
        "The winter tariff begins on 1 November, the summer tariff ends on 30 October: nothing is valid on the 31st."
    )
    s.user(
        "That is a mistake in the data, I will fix it in the office tool. Don't work around it in code.",
        after=200,
    )
    s.say("Then price_cents() stays strict and says which night has no tariff.")
    s.pytest()


def review(s: Script) -> None:
    s.user(
        "Before I look at the branch: please check the places that use the old behaviour, and write a short summary "
        "of the change in docs/changes.md, at most 20 lines.",
        after=700,
    )
    s.grep("naive(")
    s.grep("ROUND_HALF")
    for path in ("harbour/bookings/overlap.py", "tests/test_overlap.py", "harbour/reminders/job.py"):
        s.read(path)
    s.read("harbour/bookings/repository.py", "Nothing else should compare times:")
    s.bash(
        'sqlite3 harbour.db "select id, berth_id, state from bookings where id in (4471, 4472)"',
        "4471|12|confirmed\n4472|12|confirmed",
        "The two bookings of the complaint are still there; they do collide (20 minutes apart):",
    )
    s.bash(
        "python -m harbour.invoices.check --number 2026-0198 --dry-run",
        "2026-0198: stored vat_cents 4663, computed 4662 (issued, not recomputed)",
    )
    s.bash(
        "grep -rn HARBOUR_BUSY_TIMEOUT_MS deploy/",
        "deploy/harbour.service:14:# HARBOUR_BUSY_TIMEOUT_MS is not set",
    )
    s.bash(
        "git show --stat 7f3c9ae | tail -3",
        " harbour/bookings/overlap.py | 2 +-\n tests/test_overlap.py       | 5 +++++\n 2 files changed",
    )
    for name in ("bookings", "customers"):
        s.read(f"tests/test_{name}.py")
    s.bash(
        "git diff --stat main",
        DIFF,
    )
    s.write(
        "docs/changes.md",
        "# Changes of 12 March 2026\n\n- Berths: overlaps are compared in UTC; cancelled bookings free their berth.\n- Invoices: VAT is rounded half to even.\n- Database: writers wait up to 5 s (HARBOUR_BUSY_TIMEOUT_MS).\n- Reminders: the job reads open reminders once (61 s → 1.8 s).\n- Tariffs: prices are per night; 31 October has no tariff yet (data).\n",
    )
    s.pytest("One last full run:")
    s.say(
        "docs/changes.md is written (9 lines). Nothing uses naive() or ROUND_HALF_UP any more. Open: restart for the "
        "busy timeout, and the missing tariff of 31 October. Branch fix/berth-overlap is not pushed."
    )
    s.user("Thanks. Now please prepare the same overlap rule for reservations of the guest jetty.", after=300)


def main() -> None:
    entries = make()
    info = SessionInfo(
        id="sample", created=START, name="harbour: double bookings and other bugs", cwd="/srv/harbour"
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sample.jsonl"
        write_session_file(path, info, entries)
        body = path.read_bytes()
    TARGET.write_bytes(gzip.compress(body, 9, mtime=0))
    print(f"{TARGET}: {len(entries)} messages, {len(body):,} bytes, {TARGET.stat().st_size:,} compressed")


if __name__ == "__main__":
    main()
