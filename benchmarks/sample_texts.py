"""Files of the made-up repository that the sample session changes, and what its tests print."""

from __future__ import annotations

OVERLAP = '''"""Whether two stays at one berth overlap. A stay ends when the next one may begin."""

from __future__ import annotations

from datetime import datetime, timedelta

from harbour.bookings.model import Booking

TURNAROUND = timedelta(minutes=45)


def overlaps(one: Booking, other: Booking) -> bool:
    """True if both cannot have the berth."""
    if one.berth_id != other.berth_id:
        return False
    return naive(one.arrives_at) < naive(other.leaves_at) + TURNAROUND and naive(other.arrives_at) < naive(
        one.leaves_at
    ) + TURNAROUND


def naive(moment: datetime) -> datetime:
    """Local wall-clock time of the marina."""
    return moment.astimezone().replace(tzinfo=None)


def first_free(berth: int, stays: list[Booking], wanted: timedelta, after: datetime) -> datetime:
    """The first moment from `after` on at which the berth is free for `wanted`."""
    start = after
    for stay in sorted((s for s in stays if s.berth_id == berth), key=lambda s: s.arrives_at):
        if start + wanted <= stay.arrives_at:
            return start
        start = max(start, stay.leaves_at + TURNAROUND)
    return start
'''

ROUNDING = '''"""Money is in cents. Rounding happens once per invoice line, half to even."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal


def vat_cents(net_cents: int, rate: Decimal) -> int:
    """VAT of one line."""
    return int((Decimal(net_cents) * rate).quantize(Decimal(1), rounding=ROUND_HALF_UP))


def nights(arrives_at, leaves_at) -> int:
    """Nights of a stay; a stay of a few hours counts as one."""
    return max(1, (leaves_at - arrives_at).days)
'''

CLOCK = '''"""The only module that looks at the clock."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def ensure_aware(**moments: datetime | None) -> None:
    for name, moment in moments.items():
        if moment is not None and moment.tzinfo is None:
            raise ValueError(f"{name} has no time zone")
'''

SETTINGS = '''"""Settings from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    database: str = os.environ.get("HARBOUR_DATABASE", "harbour.db")
    marina_zone: str = os.environ.get("HARBOUR_ZONE", "Europe/Copenhagen")
    busy_timeout_ms: int = int(os.environ.get("HARBOUR_BUSY_TIMEOUT_MS", "0"))
    vat_rate: str = os.environ.get("HARBOUR_VAT_RATE", "0.25")
'''

README = """# harbour

Bookings, invoices and reminders for a marina of 80 berths. Python 3.12, SQLite, no framework.

    python -m harbour.web        # serves on :8040
    python -m pytest             # all tests, about 20 seconds
"""

TRACE = """    def test_stays_across_the_clock_change_do_not_collide(connection):
        first = make(Booking, berth_id=12, arrives_at=utc("2026-03-28T22:00"), leaves_at=utc("2026-03-29T01:30"))
        second = make(Booking, berth_id=12, arrives_at=utc("2026-03-29T02:20"), leaves_at=utc("2026-03-30T09:00"))
>       assert not overlaps(first, second)
E       assert not True
E        +  where True = overlaps(Booking(id=1, berth_id=12, …), Booking(id=2, berth_id=12, …))

tests/test_overlap.py:31: AssertionError"""

OVERLAP_TESTS = '''"""Two stays at one berth, around the night in which the clock changes."""

from datetime import timedelta

from harbour.bookings.model import Booking
from harbour.bookings.overlap import TURNAROUND, overlaps
from tests.factories import make, utc


def test_a_stay_blocks_its_berth_until_the_turnaround_is_over(connection):
    first = make(Booking, berth_id=12, arrives_at=utc("2026-06-01T10:00"), leaves_at=utc("2026-06-03T10:00"))
    second = make(Booking, berth_id=12, arrives_at=utc("2026-06-03T10:30"), leaves_at=utc("2026-06-04T10:00"))
    assert overlaps(first, second)
    assert TURNAROUND == timedelta(minutes=45)


def test_other_berths_do_not_matter(connection):
    first = make(Booking, berth_id=12)
    assert not overlaps(first, make(Booking, berth_id=13))


def test_stays_across_the_clock_change_do_not_collide(connection):
    first = make(Booking, berth_id=12, arrives_at=utc("2026-03-28T22:00"), leaves_at=utc("2026-03-29T01:30"))
    second = make(Booking, berth_id=12, arrives_at=utc("2026-03-29T02:20"), leaves_at=utc("2026-03-30T09:00"))
    assert not overlaps(first, second)
'''

SYSTEM = """You are a coding agent working in /srv/harbour, a Python web service. Read before you edit, keep changes
small, run the tests after every change, and say plainly what you did and what you did not do."""

DIFF = " harbour/bookings/overlap.py   |  9 ++-------\n harbour/invoices/rounding.py  |  4 ++--\n harbour/settings.py           |  2 +-\n harbour/reminders/job.py      | 17 +++++++++++++++++\n harbour/tariffs/pricing.py    | 19 +++++++++++++++++++\n tests/test_overlap.py         | 37 +++++++++++++++++++++++++++++++++++\n tests/test_rounding.py        |  9 +++++++++"
